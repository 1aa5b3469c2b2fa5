"""Weights move to huge pages at their own addresses, and only where that does no harm."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unladen._native import cpu as native
from unladen.backends._host import HostBuffer, file_of, give_back
from unladen.backends.base import Device
from unladen.backends.cpu import huge_pages
from unladen.backends.cpu.huge_pages import Moving, Stretch, is_worth_it
from unladen.types import FileMapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux moves pages")

HUGE = native.HUGE_PAGE_BYTES
DEVICE = Device("cpu:0", "", 0, is_host=True)


def mapped(path: Path, rng: np.random.Generator, n_bytes: int) -> np.ndarray:
    path.write_bytes(rng.bytes(n_bytes))
    with path.open("rb") as file:
        return np.frombuffer(FileMapping(file.fileno()), np.uint8)


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> np.ndarray:
    return mapped(tmp_path / "weights", rng, 5 * HUGE + 12345)


def first_whole(data: np.ndarray) -> int:
    return -(-data.ctypes.data // HUGE) * HUGE


def segment(data: np.ndarray, *parts: tuple[str, int, int]) -> Any:
    """One that reads matrices ``data[first:last]``, by op."""
    nodes, weights = [], {}
    for i, (op, first, last) in enumerate(parts):
        weight = SimpleNamespace(name=f"w{i}", shape=(2, 2),
                                 nbytes_in=lambda quant, n=last - first: n)
        nodes.append(SimpleNamespace(op=op, weights={"w": weight}))
        weights[weight.name] = SimpleNamespace(weight=weight, quant="Q8_0", offset=first,
                                               buffer=HostBuffer(DEVICE, data))
    return SimpleNamespace(nodes=nodes, weights=weights)


def test_bytes_stay_the_same_for_whoever_reads(data: np.ndarray) -> None:
    expected, stop, wrong = data.copy(), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            if not np.array_equal(data, expected):
                wrong.append(True)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for at in range(first_whole(data), data.ctypes.data + data.nbytes - HUGE, HUGE):
            assert native.copy_into_huge_pages(at, HUGE)
    finally:
        stop.set()
        reader.join()
    assert not wrong and np.array_equal(data, expected)


def test_what_the_system_refuses(data: np.ndarray) -> None:
    expected = data.copy()
    with pytest.raises(OSError, match="mincore"):
        native.copy_into_huge_pages(first_whole(data) + 1, HUGE)
    assert np.array_equal(data, expected)


def test_moved_pages_are_not_given_back(data: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = data.copy()
    monkeypatch.setattr(huge_pages, "is_worth_it", lambda wanted: True)
    monkeypatch.setattr(huge_pages, "PIECE_BYTES", 2 * HUGE)
    file = file_of(data)
    assert file is not None
    give_back(file, data)
    assert np.array_equal(data, expected)
    moving = Moving(segment(data, ("linear", 100, data.nbytes)))
    for _ in range(huge_pages.N_STEPS_BEFORE):
        moving.after_step()
    assert not file.is_replaced
    moving.after_step()
    assert file.is_replaced
    moving.finish()
    give_back(file, data)
    assert np.array_equal(data, expected)
    assert not huge_pages.stretches(segment(data, ("linear", 100, data.nbytes)))


def test_what_is_moved(data: np.ndarray) -> None:
    parts = (("linear", 0, HUGE), ("linear", HUGE + 500, 2 * HUGE), ("embed", 2 * HUGE, 5 * HUGE))
    (only,) = huge_pages.stretches(segment(data, *parts))
    begin = data.ctypes.data
    assert only.first == first_whole(data) and only.last == (begin + 2 * HUGE) // HUGE * HUGE
    assert not huge_pages.stretches(segment(data.copy(), *parts))
    assert not huge_pages.stretches(segment(data, ("linear", 5, 5000)))


@pytest.fixture
def plain(data: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Stretch]:
    """A system where everything speaks for moving these."""
    monkeypatch.delenv(huge_pages.VARIABLE, raising=False)
    for name, text in (("SETTING", "always [madvise] never\n"), ("SMAPS", "")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(huge_pages, name, tmp_path / name)
    monkeypatch.setattr(huge_pages, "CGROUPS", tmp_path)
    file = file_of(data)
    assert file is not None
    wanted = [Stretch(file, first_whole(data), first_whole(data) + 4 * HUGE)]
    monkeypatch.setattr(huge_pages, "free_host_bytes", lambda: 8 * HUGE)
    assert is_worth_it(wanted)
    return wanted


def smaps(wanted: list[Stretch], *lines: str) -> str:
    (one,) = wanted
    other = f"{one.last:x}-{one.last + 4096:x} r--p 0\nAnonHugePages: 99999 kB\nVmFlags: rd lo\n"
    return f"{one.first:x}-{one.last:x} r--s 0 fe:00 7 /w\n" + "\n".join(lines) + "\n" + other


@pytest.mark.parametrize(("line", "worth_it"), [
    ("FilePmdMapped: 4096 kB", True), ("FilePmdMapped: 6144 kB", False),
    ("AnonHugePages: 6144 kB", False), ("VmFlags: rd mr hg", True), ("VmFlags: rd lo", False)])
def test_pages_that_stay(plain: list[Stretch], line: str, worth_it: bool) -> None:
    huge_pages.SMAPS.write_text(smaps(plain, line))
    assert is_worth_it(plain) == worth_it


def test_systems_without(plain: list[Stretch], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(huge_pages, "free_host_bytes", lambda: 8 * HUGE - 1)
        assert not is_worth_it(plain)
    with monkeypatch.context() as changed:
        changed.setenv(huge_pages.VARIABLE, "0")
        assert not is_worth_it(plain)
    huge_pages.SETTING.write_text("always madvise [never]\n")
    assert not is_worth_it(plain)


@pytest.mark.parametrize(("used", "worth_it"), [(0, True), (1, False)])
def test_limits_of_control_groups(plain: list[Stretch], used: int, worth_it: bool) -> None:
    root = huge_pages.CGROUPS
    v1 = root / "memory"
    v1.mkdir()
    for folder, limit, current in ((root, "memory.max", "memory.current"),
                                   (v1, "memory.limit_in_bytes", "memory.usage_in_bytes")):
        (folder / limit).write_text(f"{8 * HUGE}\n")
        (folder / current).write_text(f"{used}\n")
    assert is_worth_it(plain) == worth_it
    for limit in (root / "memory.max", v1 / "memory.limit_in_bytes"):
        limit.write_text("max\n")
    assert is_worth_it(plain)
