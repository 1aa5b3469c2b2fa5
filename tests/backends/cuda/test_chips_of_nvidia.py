"""What chips can do, and where NVRTC is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unladen.backends import backend_of
from unladen.backends.cuda import driver, has_hardware
from unladen.backends.cuda.driver import CUDA, chip_named


@pytest.mark.parametrize(("chip", "name", "more"), [
    (52, "sm_52", set()), (61, "sm_61", {"int_dot"}), (75, "sm_75", {"int_dot"}),
    (80, "sm_80", {"int_dot", "mma"}), (89, "sm_89", {"int_dot", "mma"}),
    (90, "sm_90a", {"int_dot", "mma", "pdl", "wgmma"}), (100, "sm_100", {"int_dot", "mma", "pdl"}),
    (120, "sm_120", {"int_dot", "mma", "pdl"})])
def test_abilities(chip: int, name: str, more: set[str]) -> None:
    found = chip_named(chip)
    assert (found.name, found.abilities) == (name, {"subgroups", *more})
    assert found.abilities <= set(CUDA.abilities)


def test_the_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nvidia/cuda_nvrtc/lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.12", "libnvrtc.alt.so.12", "libnvrtc-builtins.so.12.9"):
        (folder / name).write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [n for n in sys.modules if n.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    assert str(folder / "libnvrtc.so.12") in driver.packaged()
    assert not any("alt" in path or "builtins" in path for path in driver.packaged())


def test_only_where_it_is_named() -> None:
    assert not has_hardware()
    assert backend_of("cuda").name == "cuda"
    assert backend_of("cuda").devices() or backend_of("cuda").why_none()
