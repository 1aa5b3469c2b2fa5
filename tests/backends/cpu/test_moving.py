"""Weights move to where they are read fastest, and only where that does no harm."""

from __future__ import annotations

import mmap
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unladen._native import cpu as native
from unladen.backends._host import HostBuffer, file_of, give_back, lock, memory_lock_limit
from unladen.backends.base import BackendOptions, Device
from unladen.backends.cpu import moving
from unladen.backends.cpu.moving import Moving, Stretch, are_small, may_move, stretches
from unladen.storage.mapping import FileMapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux moves pages")

HUGE, PAGE_BYTES = native.HUGE_PAGE_BYTES, mmap.PAGESIZE
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
    return SimpleNamespace(nodes=nodes, weights=weights, options=BackendOptions(), is_brief=False)


class Interleaver:
    """Says what is done, and does nothing."""

    def __init__(self, *wanted: tuple[int, int]) -> None:
        self.started: list[int] = []
        self._wanted = list(wanted)

    def wanted(self) -> list[tuple[int, int]]:
        return list(self._wanted)

    def start(self, addresses: list[int]) -> None:
        self.started = addresses
        self._left = [one for one in self._wanted if one[0] in addresses]

    def advance(self, n_bytes: int) -> list[tuple[int, int]]:
        done = []
        while self._left and n_bytes:
            first, left = self._left.pop(0)
            done.append((first, min(n_bytes, left)))
            n_bytes -= done[-1][1]
            if done[-1][1] < left:
                self._left.insert(0, (first + done[-1][1], left - done[-1][1]))
        return done


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
    monkeypatch.setattr(moving, "may_move", lambda wanted: True)
    monkeypatch.setattr(moving, "are_small", lambda wanted: True)
    monkeypatch.setattr(moving, "PIECE_BYTES", 2 * HUGE)
    file = file_of(data)
    assert file is not None
    give_back(file, data)
    assert np.array_equal(data, expected)
    one = Moving(Interleaver(), segment(data, ("linear", 100, data.nbytes)), "vbmi")
    for _ in range(moving.N_STEPS_BEFORE):
        one.after_step()
    assert not file.is_replaced
    one.after_step()
    assert file.is_replaced
    one.finish()
    give_back(file, data)
    assert np.array_equal(data, expected)
    assert stretches(segment(data, ("linear", 100, data.nbytes)), []) == ([], [])


def test_interleaved_rows(data: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are, piece by piece, and their pages given back to the file, which stays as it was."""
    expected, given_back = data.copy(), []
    monkeypatch.setattr(moving, "may_move", lambda wanted: True)
    monkeypatch.setattr(moving, "PIECE_BYTES", HUGE)
    monkeypatch.setattr(moving, "give_back", lambda file, piece: given_back.append(
        (piece.ctypes.data - data.ctypes.data, piece.nbytes)))
    wanted = [(data.ctypes.data + 100, 3 * HUGE // 2), (data.ctypes.data + 2 * HUGE, 1000),
              (data.ctypes.data + 3 * HUGE, 1000)]
    rows = Interleaver(*wanted)
    of = segment(data, ("linear", 100, 2 * HUGE), ("linear", 2 * HUGE, 3 * HUGE))
    one = Moving(rows, of, "vbmi")
    for _ in range(moving.N_STEPS_BEFORE):
        one.after_step()
    assert not rows.started
    one.finish()
    assert rows.started == [first for first, _ in wanted[:2]]
    assert given_back == [(100, HUGE), (100 + HUGE, HUGE // 2), (2 * HUGE, 1000)]
    assert np.array_equal(data, expected)


def test_what_is_moved(data: np.ndarray) -> None:
    parts = (("linear", 0, HUGE), ("linear", HUGE + 500, 2 * HUGE), ("embed", 2 * HUGE, 4 * HUGE),
             ("linear", 4 * HUGE, 5 * HUGE))
    begin = data.ctypes.data
    (copied,), (only,) = stretches(segment(data, *parts), [(begin + 4 * HUGE, 1000)])
    assert (copied.first, copied.last) == (begin + 4 * HUGE, begin + 4 * HUGE + 1000)
    assert only.first == first_whole(data) and only.last == (begin + 2 * HUGE) // HUGE * HUGE
    assert stretches(segment(data.copy(), *parts), [(begin, 7)]) == ([], [])
    assert stretches(segment(data, ("linear", 5, 5000)), []) == ([], [])


@pytest.fixture
def plain(data: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Stretch]:
    """A system where everything speaks for moving these."""
    monkeypatch.delenv(moving.VARIABLE, raising=False)
    for name, text in (("SETTING", "always [madvise] never\n"), ("SMAPS", ""),
                       ("STATUS", "VmPeak: 900 kB\nVmLck: 0 kB\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(moving, name, tmp_path / name)
    monkeypatch.setattr(moving, "CGROUPS", tmp_path)
    file = file_of(data)
    assert file is not None
    wanted = [Stretch(file, first_whole(data), first_whole(data) + 4 * HUGE)]
    monkeypatch.setattr(moving, "free_host_bytes", lambda: 8 * HUGE)
    assert may_move(wanted)
    assert are_small(wanted)
    return wanted


def smaps(wanted: list[Stretch], *lines: str) -> str:
    (one,) = wanted
    other = f"{one.last:x}-{one.last + 4096:x} r--p 0\nAnonHugePages: 99999 kB\nVmFlags: rd lo\n"
    return f"{one.first:x}-{one.last:x} r--s 0 fe:00 7 /w\n" + "\n".join(lines) + "\n" + other


@pytest.mark.parametrize(("line", "small"), [
    ("FilePmdMapped: 4096 kB", True), ("FilePmdMapped: 6144 kB", False),
    ("AnonHugePages: 6144 kB", False)])
def test_pages_that_are_huge(plain: list[Stretch], line: str, small: bool) -> None:
    moving.SMAPS.write_text(smaps(plain, line))
    assert are_small(plain) == small
    assert may_move(plain)


@pytest.mark.parametrize(("line", "may"), [("VmFlags: rd mr hg", True), ("VmFlags: rd lo", False)])
def test_locked_pages_stay(plain: list[Stretch], line: str, may: bool) -> None:
    moving.SMAPS.write_text(smaps(plain, line))
    for status in ("VmLck: 4096 kB\n", "VmPeak: 900 kB\n"):
        moving.STATUS.write_text(status)
        assert may_move(plain) == may


def test_the_list_of_mappings_is_not_read_where_nothing_is_locked(plain: list[Stretch]) -> None:
    moving.SMAPS.write_text(smaps(plain, "VmFlags: rd lo"))
    assert may_move(plain)


def test_pages_that_are_locked_now(data: np.ndarray) -> None:
    """As this system's files say it of the last page alone."""
    limit = memory_lock_limit()
    if limit is not None and limit < PAGE_BYTES:
        pytest.skip(f"this process may lock {limit} bytes (ulimit -l)")
    file = file_of(data)
    assert file is not None
    wanted = [Stretch(file, first_whole(data), first_whole(data) + HUGE)]
    assert not moving._mapped(wanted).is_locked
    end = wanted[0].last - data.ctypes.data
    lock(data[end - PAGE_BYTES:end])
    assert moving._any_is_locked() and moving._mapped(wanted).is_locked


def test_systems_without(plain: list[Stretch], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(moving, "free_host_bytes", lambda: 8 * HUGE - 1)
        assert not may_move(plain)
    with monkeypatch.context() as changed:
        changed.setenv(moving.VARIABLE, "0")
        assert not may_move(plain)
    assert not may_move([]) and not are_small([])
    moving.SETTING.write_text("always madvise [never]\n")
    assert not are_small(plain)
    moving.SMAPS.unlink()
    assert not may_move(plain)


@pytest.mark.parametrize(("used", "may"), [(0, True), (1, False)])
def test_limits_of_control_groups(plain: list[Stretch], used: int, may: bool) -> None:
    root = moving.CGROUPS
    v1 = root / "memory"
    v1.mkdir()
    for folder, limit, current in ((root, "memory.max", "memory.current"),
                                   (v1, "memory.limit_in_bytes", "memory.usage_in_bytes")):
        (folder / limit).write_text(f"{8 * HUGE}\n")
        (folder / current).write_text(f"{used}\n")
    assert may_move(plain) == may
    for limit in (root / "memory.max", v1 / "memory.limit_in_bytes"):
        limit.write_text("max\n")
    assert may_move(plain)
