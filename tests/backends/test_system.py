"""What operating systems are asked: each with a stand-in for its libraries and files."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.backends import _cgroups as cgroups
from unladen.backends import _host
from unladen.backends._host import alloc_host
from unladen.backends._system import UNKNOWN_BYTES, System, this_system
from unladen.backends._system_linux import Linux
from unladen.backends._system_mac import MADV_FREE_REUSABLE, Mac, VmStatistics
from unladen.backends._system_windows import Windows
from unladen.backends.base import Device
from unladen.backends.cpu import CpuBackend
from unladen.errors import MemoryLockError, OutOfMemory

GIB = 1 << 30
DEVICE = Device("cpu:0", "", 0, is_host=True)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# ---- Linux

MEMINFO = {"proc/meminfo": "MemTotal:       67108864 kB\nMemAvailable:   50331648 kB\n"}


def v2(limit: str, used: int, cached: int = 0, folder: str = "") -> dict[str, str]:
    base = f"sys/fs/cgroup/{folder}"
    return {base + "memory.max": limit + "\n", base + "memory.current": f"{used}\n",
            base + "memory.stat": f"anon 5\nactive_file {cached}\ninactive_file 0\n"}


def v1(limit: int, used: int, cached: int = 0) -> dict[str, str]:
    base = "sys/fs/cgroup/memory/memory."
    return {base + "limit_in_bytes": f"{limit}\n", base + "usage_in_bytes": f"{used}\n",
            base + "stat": f"cache 1\ntotal_inactive_file {cached}\ntotal_active_file 0\n"}


@pytest.mark.parametrize(("files", "total", "free"), [
    ({}, 64 * GIB, 48 * GIB),
    ({"proc/self/cgroup": "0::/\n"} | v2("max", 60 * GIB), 64 * GIB, 48 * GIB),
    ({"proc/self/cgroup": "0::/\n"} | v2(f"{2 * GIB}", GIB), 2 * GIB, GIB),
    # files in memory can be dropped
    ({"proc/self/cgroup": "0::/\n"} | v2(f"{2 * GIB}", 2 * GIB, GIB // 2), 2 * GIB, GIB // 2),
    # a service's own group and one above it, the narrower counts
    ({"proc/self/cgroup": "0::/a/b\n"} | v2(f"{8 * GIB}", GIB, folder="a/b/")
     | v2(f"{4 * GIB}", 3 * GIB, folder="a/"), 4 * GIB, GIB),
    # memory.high slows a group down before memory.max ends it
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.high": f"{GIB}\n"}
     | v2(f"{2 * GIB}", GIB // 4), GIB, GIB - GIB // 4),
    # more than allowed is used already
    ({"proc/self/cgroup": "0::/\n"} | v2(f"{GIB}", 2 * GIB), GIB, 0),
    # version 1; the path is the host's, and not there inside the container
    ({"proc/self/cgroup": "7:memory:/docker/f00\n0::/docker/f00\n"} | v1(2 * GIB, GIB),
     2 * GIB, GIB),
    ({"proc/self/cgroup": "7:memory:/\n"} | v1(2 * GIB, 2 * GIB, GIB), 2 * GIB, GIB),
    ({"proc/self/cgroup": "7:memory:/\n"} | v1(9223372036854771712, GIB), 64 * GIB, 48 * GIB),
])
def test_memory_of_a_container(tmp_path: Path, files: dict[str, str], total: int, free: int
                               ) -> None:
    write(tmp_path, MEMINFO | files)
    system = Linux(root=tmp_path)
    assert (system.total_bytes(), system.free_bytes()) == (total, free)


def test_a_container_bounds_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, MEMINFO | {"proc/self/cgroup": "0::/\n"} | v2(f"{2 * GIB}", 2 * GIB - 5000))
    monkeypatch.setattr(_host, "this_system", lambda: Linux(root=tmp_path))
    assert alloc_host(DEVICE, 5000).nbytes == 5000
    with pytest.raises(OutOfMemory) as caught:
        alloc_host(DEVICE, 5001)
    assert caught.value.free == 5000


def test_unreadable_groups_are_no_limit(tmp_path: Path) -> None:
    write(tmp_path, MEMINFO | {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "2\n"})
    (tmp_path / "sys/fs/cgroup/memory.current").mkdir()
    assert Linux(root=tmp_path).free_bytes() == 48 * GIB
    assert Linux(root=tmp_path / "nothing").free_bytes() == UNKNOWN_BYTES


@pytest.mark.parametrize(("files", "expected"), [
    ({}, None),
    ({"own": "0::/\n", "cpu.max": "max 100000\n"}, None),
    ({"own": "0::/\n", "cpu.max": "200000 100000\n"}, 2),
    ({"own": "0::/\n", "cpu.max": "150000 100000\n"}, 2),
    ({"own": "0::/\n", "cpu.max": "1000 100000\n"}, 1),
    ({"own": "0::/a\n", "a/cpu.max": "max 100000\n", "cpu.max": "300000 100000\n"}, 3),
    ({"own": "3:cpu,cpuacct:/x\n", "cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
      "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 4),
    ({"own": "3:cpu:/\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
     None),
])
def test_processor_time_of_a_container(tmp_path: Path, files: dict[str, str],
                                       expected: int | None) -> None:
    write(tmp_path, files)
    assert cgroups.n_cpus(tmp_path, tmp_path / "own") == expected


def test_threads_of_one_core_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 5}, raising=False)
    folder = "sys/devices/system/cpu/cpu"
    write(tmp_path, {f"{folder}{n}/topology/thread_siblings_list": f"{n // 2}\n"
                     for n in range(6)})
    system = Linux(root=tmp_path)
    assert system.n_cores() == 3
    assert system.n_cores({0, 1, 7}) == 1
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert system.n_cores() == 2


# ---- Windows


class Kernel32:
    """kernel32 of a machine with 16 GiB and two cores of two threads; ``quota``: bytes that can be
    locked before the working set is widened."""

    def __init__(self, *, allowed: int = 0b1111, fails: bool = False, quota: int = 0) -> None:
        self.allowed, self.fails, self.quota = allowed, fails, quota
        self.error = 0
        self.locked: list[tuple[int, int]] = []

    def GetCurrentProcess(self) -> int:
        return -1

    def GetLastError(self) -> int:
        return self.error

    def GlobalMemoryStatusEx(self, status: Any) -> int:
        raw = (ctypes.c_char * 64).from_address(ctypes.addressof(status._obj))
        assert struct.unpack_from("<I", raw, 0) == (64,)
        struct.pack_into("<7Q", raw, 8, 16 * GIB, 9 * GIB, 20 * GIB, 6 * GIB, 1 << 47, 1 << 46, 0)
        return not self.fails

    def GetProcessAffinityMask(self, process: Any, own: Any, machine: Any) -> int:
        own._obj.value = self.allowed
        machine._obj.value = 0b1111
        return 1

    def GetLogicalProcessorInformationEx(self, relation: int, data: Any,
                                         size: Any) -> int:
        cores = b"".join(struct.pack("<IIBB20xHQH6x", 0, 48, 1, 0, 1, mask, 0)
                         for mask in (0b11, 0b1100))
        assert relation == 0
        if self.fails:
            return 0
        if data is not None and size._obj.value >= len(cores):
            data.raw = cores
        size._obj.value = len(cores)
        return data is not None

    def VirtualLock(self, address: Any, size: Any) -> int:
        if size.value > self.quota:
            self.error = 1453 if not self.fails else 5
            return 0
        self.locked.append((address.value, size.value))
        return 1

    def GetProcessWorkingSetSize(self, process: Any, least: Any, most: Any) -> int:
        least._obj.value, most._obj.value = 200 << 10, 1400 << 10
        return 1

    def SetProcessWorkingSetSize(self, process: Any, least: Any, most: Any) -> int:
        assert 0 < least.value < most.value
        self.quota = least.value
        return 1


def test_memory_of_windows() -> None:
    system = Windows(Kernel32())
    assert (system.total_bytes(), system.free_bytes()) == (16 * GIB, 6 * GIB)
    system = Windows(Kernel32(fails=True))
    assert (system.total_bytes(), system.free_bytes()) == (UNKNOWN_BYTES, UNKNOWN_BYTES)


@pytest.mark.parametrize(("allowed", "n"), [(0b1111, 2), (0b0100, 1), (0b0110, 2), (0, 2)])
def test_cores_of_windows(allowed: int, n: int) -> None:
    assert Windows(Kernel32(allowed=allowed)).n_cores() == n


def test_cores_of_windows_unknown() -> None:
    assert Windows(Kernel32(fails=True)).n_cores() == os.cpu_count()


def test_locking_on_windows() -> None:
    kernel32 = Kernel32()
    assert Windows(kernel32).lock(1 << 40, 8 << 20) == ""
    assert kernel32.locked == [(1 << 40, 8 << 20)]
    assert "error 5" in Windows(Kernel32(fails=True)).lock(4096, 4096)


# ---- macOS


class LibSystem:
    """The C library of a Mac with four fast cores and four slow ones, pages of 16 KiB."""

    numbers = {b"hw.memsize": struct.pack("<Q", 16 * GIB), b"hw.physicalcpu": struct.pack("<I", 8),
               b"hw.perflevel0.physicalcpu": struct.pack("<I", 4),
               b"machdep.cpu.brand_string": b"Apple M9\0"}
    fails = False

    def __init__(self) -> None:
        self.advice: list[tuple[int, int, int]] = []

    def sysctlbyname(self, name: bytes, to: Any, size: Any, new: None, n_new: Any) -> int:
        value = self.numbers.get(name)
        if value is None or size._obj.value < len(value):
            return -1
        ctypes.memmove(to, value, len(value))
        size._obj.value = len(value)
        return 0

    def mach_host_self(self) -> int:
        return 77

    def host_page_size(self, host: int, size: Any) -> int:
        size._obj.value = 16384
        return 0

    def host_statistics64(self, host: int, flavor: int, found: Any, count: Any) -> int:
        assert (host, flavor, count._obj.value) == (77, 4, 38)
        # free, active, inactive, wired: the first four of 32 bits
        raw = (ctypes.c_char * 152).from_address(ctypes.addressof(found._obj))
        struct.pack_into("<4I", raw, 0, 1000, 2000, 3000, 4000)
        return int(self.fails)

    def madvise(self, address: Any, size: Any, advice: int) -> int:
        self.advice.append((address.value, size.value, advice))
        return 0


def test_memory_of_macs() -> None:
    assert ctypes.sizeof(VmStatistics) == 152
    system = Mac(LibSystem())
    assert (system.total_bytes(), system.free_bytes()) == (16 * GIB, 4000 * 16384)
    refusing = LibSystem()
    refusing.fails = True
    assert Mac(refusing).free_bytes() == 16 * GIB


def test_cores_of_macs(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Mac(LibSystem())
    assert (system.n_cores(), system.processor_name()) == (4, "Apple M9")
    intel = {name: value for name, value in LibSystem.numbers.items() if b"perflevel" not in name}
    monkeypatch.setattr(LibSystem, "numbers", intel)
    assert system.n_cores() == 8
    monkeypatch.setattr(LibSystem, "numbers", {})
    assert system.n_cores() == os.cpu_count()
    assert system.total_bytes() == UNKNOWN_BYTES


def test_discarding_on_macs(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = alloc_host(DEVICE, 1 << 20)
    libc = LibSystem()
    monkeypatch.setattr(_host, "this_system", lambda: Mac(libc))
    CpuBackend().discard(buffer, densely_used=True)
    assert libc.advice[0] == (buffer.address, 1 << 20, MADV_FREE_REUSABLE)


# ---- any


class Nothing:
    """A library whose functions all refuse."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args: 0


@pytest.mark.parametrize("make", [System, lambda: Windows(Nothing()), this_system])
def test_buffers_anywhere(make: Callable[[], System], monkeypatch: pytest.MonkeyPatch,
                          rng: np.random.Generator) -> None:
    """Also where mmap knows no flags."""
    system = make()
    monkeypatch.setattr(_host, "this_system", lambda: system)
    if not isinstance(system, type(this_system())):
        for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_HUGEPAGE"):
            monkeypatch.delattr(mmap, name, raising=False)
    memory, buffer = CpuBackend(), alloc_host(DEVICE, 100_000, huge_pages=True)
    assert not buffer.data.any() and buffer.address % mmap.PAGESIZE == 0
    data = rng.integers(0, 256, 100_000).astype(np.uint8)
    memory.write(buffer, data)
    assert np.array_equal(memory.read(buffer, 100_000), data)
    memory.discard(buffer, densely_used=False)
    memory.write(buffer, data)
    assert np.array_equal(memory.read(buffer, 100_000), data)
    assert system.n_cores() >= 1 and system.processor_name()
    assert 0 < system.free_bytes() <= system.total_bytes()


def test_a_system_that_locks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "this_system", System)
    with pytest.raises(MemoryLockError, match="this system"):
        _host.lock(np.zeros(100, np.uint8))
