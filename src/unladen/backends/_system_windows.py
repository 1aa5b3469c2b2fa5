"""Windows, through kernel32."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator
from typing import Any

from unladen.backends._system import System

RELATION_PROCESSOR_CORE = 0
"""RelationProcessorCore of <winnt.h>: asks for a list of cores."""
ERROR_WORKING_SET_QUOTA = 1453
"""From <winerror.h>: the working set is too small for the pages to lock."""
SPARE_BYTES = 1 << 20
"""Bytes by which the working set must be larger than the locked pages."""


class MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of <sysinfoapi.h>."""

    _fields_ = [("length", ctypes.c_uint32), ("load_percent", ctypes.c_uint32),
                *((name, ctypes.c_uint64) for name in (
                    "total", "available", "total_commit", "available_commit", "total_virtual",
                    "available_virtual", "available_extended"))]


class GroupAffinity(ctypes.Structure):
    """GROUP_AFFINITY of <winnt.h>, in a 64-bit program."""

    _fields_ = [("mask", ctypes.c_uint64), ("group", ctypes.c_uint16),
                ("reserved", ctypes.c_uint16 * 3)]


class Core(ctypes.Structure):
    """SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX with PROCESSOR_RELATIONSHIP, up to the affinities."""

    _fields_ = [("relation", ctypes.c_uint32), ("size", ctypes.c_uint32),
                ("flags", ctypes.c_uint8), ("efficiency", ctypes.c_uint8),
                ("reserved", ctypes.c_uint8 * 20), ("n_groups", ctypes.c_uint16)]


class Windows(System):
    """Windows, through ``kernel32``; None takes the system's."""

    can_lock = True

    def __init__(self, kernel32: Any = None) -> None:
        if kernel32 is None:
            # Looked up by name, since type checkers know that ctypes lacks it on other systems.
            kernel32 = vars(ctypes)["WinDLL"]("kernel32", use_last_error=True)
            kernel32.GetCurrentProcess.restype = ctypes.c_void_p
        self._kernel32 = kernel32

    def machine_bytes(self) -> int:
        status = self._memory()
        return int(status.total) if status is not None else super().machine_bytes()

    def free_bytes(self) -> int:
        status = self._memory()
        if status is None:
            return super().free_bytes()
        # Allocated pages count before they are used, so both numbers limit an allocation.
        return int(min(status.available, status.available_commit))

    def lock(self, address: int, nbytes: int) -> str:
        place = ctypes.c_void_p(address), ctypes.c_size_t(nbytes)
        if self._kernel32.VirtualLock(*place):
            return ""
        error = self._last_error()
        if error == ERROR_WORKING_SET_QUOTA and self._widen_working_set(nbytes):
            if self._kernel32.VirtualLock(*place):
                return ""
            error = self._last_error()
        return f"VirtualLock refuses, error {error}"

    def n_cores(self, among: Collection[int] | None = None) -> int:
        return sum(1 for _ in self._cores()) or super().n_cores(among)

    def _memory(self) -> MemoryStatus | None:
        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        return status if self._kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None

    def _last_error(self) -> int:
        return int(self._kernel32.GetLastError())

    def _widen_working_set(self, nbytes: int) -> bool:
        process = ctypes.c_void_p(self._kernel32.GetCurrentProcess())
        least, most = ctypes.c_size_t(0), ctypes.c_size_t(0)
        if not self._kernel32.GetProcessWorkingSetSize(process, ctypes.byref(least),
                                                       ctypes.byref(most)):
            return False
        more = nbytes + SPARE_BYTES
        return bool(self._kernel32.SetProcessWorkingSetSize(
            process, ctypes.c_size_t(least.value + more), ctypes.c_size_t(most.value + more)))

    def _cores(self) -> Iterator[Core]:
        """The cores with a processor that this process may use. The process's mask holds for one
        group of processors, so on a machine with several groups (more than 64 processors) all cores
        count."""
        size = ctypes.c_uint32(0)
        self._kernel32.GetLogicalProcessorInformationEx(RELATION_PROCESSOR_CORE, None,
                                                        ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        if not size.value or not self._kernel32.GetLogicalProcessorInformationEx(
                RELATION_PROCESSOR_CORE, data, ctypes.byref(size)):
            return
        allowed, at = self._allowed(), 0
        while at + ctypes.sizeof(Core) <= size.value:
            core = Core.from_buffer_copy(data, at)
            if core.size < ctypes.sizeof(Core):
                return
            first = GroupAffinity.from_buffer_copy(data, at + ctypes.sizeof(Core))
            if allowed is None or first.mask & allowed:
                yield core
            at += core.size

    def _allowed(self) -> int | None:
        """The mask of processors that this process may use; None for all, also on a machine with
        several groups."""
        own, machine = ctypes.c_size_t(0), ctypes.c_size_t(0)
        process = ctypes.c_void_p(self._kernel32.GetCurrentProcess())
        if not self._kernel32.GetProcessAffinityMask(process, ctypes.byref(own),
                                                     ctypes.byref(machine)):
            return None
        return own.value or None
