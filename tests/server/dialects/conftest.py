"""Fixtures of the tests of dialects: a core whose answers a test writes, and its address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.live import live
from server.scripted import ScriptedCore
from unladen.server.app import make_app
from unladen.server.settings import Settings


@pytest.fixture(scope="module")
def core() -> ScriptedCore:
    """A core without a script."""
    return ScriptedCore()


@pytest.fixture(scope="module")
def address(core: ScriptedCore) -> Iterator[str]:
    """The address of a server of ``core``, whose heart beats often."""
    with live(make_app(core, Settings(heartbeat_s=0.2))) as found:
        yield found
