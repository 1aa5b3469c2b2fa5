"""Fixtures: plans of a tiny model and of two, and steps by hand."""

import pytest

from tiny_plan import allocated as allocated
from tiny_plan import feed as feed
from tiny_plan import tiny as tiny
from tiny_plan import tokens as tokens
from two_graphs import pair as pair
from unladen.schedule.search import device_speed

USUAL = 20e9, 500e9
"""Bytes and operations a second of a processor. Plans of these tests stream no weights with it: a
copy to a device takes longer than the tiny products."""
SLOW = 1e3, 1e3
"""With this processor, "auto" streams weights through any other device."""


@pytest.fixture(autouse=True)
def usual_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What "auto" decides follows the processor's measured speed. The tests' one is always the
    same, however busy the machine is."""
    monkeypatch.setattr(device_speed, "measure", lambda name: USUAL)
