"""macOS: sysctl describes the machine, and Mach says how much of its memory is free."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Collection

from unladen.backends._system_posix import Posix

HOST_VM_INFO64 = 4
"""From <mach/host_info.h>: asks for :class:`VmStatistics`."""
MADV_FREE_REUSABLE = 7
"""From <sys/mman.h>. MADV_DONTNEED only moves pages to the end of a queue there."""


class VmStatistics(ctypes.Structure):
    """vm_statistics64 of <mach/vm_statistics.h>; all but the last three kinds count pages."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("free", "active", "inactive", "wired")),
        *((name, ctypes.c_uint64) for name in (
            "zero_filled", "reactivations", "pageins", "pageouts", "faults", "cow_faults",
            "lookups", "hits", "purges")),
        *((name, ctypes.c_uint32) for name in ("purgeable", "speculative")),
        *((name, ctypes.c_uint64) for name in (
            "decompressions", "compressions", "swapins", "swapouts")),
        *((name, ctypes.c_uint32) for name in (
            "compressor_pages", "throttled", "external", "internal")),
        ("uncompressed_in_compressor", ctypes.c_uint64)]


class Mac(Posix):
    """macOS. Its free memory includes pages that weren't used lately: they mostly hold files, so
    the system reuses them without writing them anywhere."""

    def machine_bytes(self) -> int:
        return self._number("hw.memsize") or super().machine_bytes()

    def free_bytes(self) -> int:
        found, total = VmStatistics(), self.total_bytes()
        count = ctypes.c_uint32(ctypes.sizeof(found) // ctypes.sizeof(ctypes.c_uint32))
        page = ctypes.c_size_t(mmap.PAGESIZE)
        host = self._libc.mach_host_self()
        # Counted in pages of the kernel, four times as large as those of a translated x86-64
        # program.
        if (self._libc.host_page_size(host, ctypes.byref(page)) != 0
                or self._libc.host_statistics64(host, HOST_VM_INFO64, ctypes.byref(found),
                                                ctypes.byref(count)) != 0):
            return total
        return min(total, int(found.free + found.inactive) * page.value)

    def discard(self, address: int, nbytes: int) -> None:
        if nbytes:
            self._madvise(address, nbytes, MADV_FREE_REUSABLE)

    def n_cores(self, among: Collection[int] | None = None) -> int:
        # Only fast cores, if there are slow ones too: at the end of each node all threads wait for
        # the slowest.
        return (self._number("hw.perflevel0.physicalcpu") or self._number("hw.physicalcpu")
                or super().n_cores(among))

    def processor_name(self) -> str:
        text = ctypes.create_string_buffer(256)
        if self._ask("machdep.cpu.brand_string", text, len(text)) and text.value:
            return text.value.decode("utf-8", "replace")
        return super().processor_name()

    def _number(self, name: str) -> int | None:
        """The number ``name``, of 4 or 8 bytes; None where the system doesn't have it."""
        value = ctypes.c_uint64(0)
        return value.value if self._ask(name, value, ctypes.sizeof(value)) else None

    def _ask(self, name: str, to: ctypes.c_uint64 | ctypes.Array[ctypes.c_char], n_bytes: int
             ) -> bool:
        size = ctypes.c_size_t(n_bytes)
        answer = self._libc.sysctlbyname(name.encode(), ctypes.byref(to), ctypes.byref(size),
                                         None, ctypes.c_size_t(0))
        return bool(answer == 0)
