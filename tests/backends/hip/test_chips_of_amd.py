"""What chips can do, and what the runtime of this machine says, if there is one."""

from __future__ import annotations

import pytest

from unladen.backends import backend_of
from unladen.backends._gpu.cuda_like.vendor import Chip
from unladen.backends.hip import has_hardware
from unladen.backends.hip.driver import CHIP, HIP, chip_named


@pytest.mark.parametrize(("name", "has_dot"), [
    ("gfx900", False), ("gfx906:sramecc+:xnack-", True), ("gfx90a:sramecc+:xnack-", True),
    ("gfx90c:xnack-", False), ("gfx942", True), ("gfx1010:xnack-", False), ("gfx1030", True),
    ("gfx1100", True), ("gfx1201", True)])
def test_abilities(name: str, has_dot: bool) -> None:
    found = chip_named(name)
    assert isinstance(found, Chip)
    assert (found.name, "int_dot" in found.abilities) == (name, has_dot)
    assert found.abilities <= set(HIP.abilities)


def test_old_chips() -> None:
    assert chip_named("gfx803") == "its chip gfx803 is older than Vega (gfx900)"


def test_the_chip_among_properties() -> None:
    data = b"AMD Instinct MI250X\0" + bytes(300) + b"gfx90a:sramecc+:xnack-\0\1\2\3" + bytes(40)
    found = CHIP.search(data)
    assert found is not None and found[0] == b"gfx90a:sramecc+:xnack-"


def test_only_where_it_is_named() -> None:
    assert not has_hardware()
    assert backend_of("hip").devices() or backend_of("hip").why_none()
