"""The operating system's answers about memory, pages and cores. Each system has one class."""

from __future__ import annotations

import functools
import mmap
import os
import platform
import sys
from collections.abc import Collection

UNKNOWN_BYTES = 1 << 46
"""Bytes that stand for an unknown size: allocations fail where there is less memory."""


class System:
    """An unknown system. Subclasses override the methods that their system can answer better.

    An ``address`` is that of a page, and ``nbytes`` are whole pages.
    """

    can_lock = False

    def machine_bytes(self) -> int:
        """Bytes of the machine's memory, regardless of limits."""
        return UNKNOWN_BYTES

    def total_bytes(self) -> int:
        """The most bytes that this process can have."""
        return self.machine_bytes()

    def free_bytes(self) -> int:
        """Bytes that can be allocated without swapping."""
        return UNKNOWN_BYTES

    def allocate(self, nbytes: int) -> mmap.mmap:
        """Zeroed pages, allocated when they are first used. Raises OSError."""
        return mmap.mmap(-1, nbytes)

    def advise(self, address: int, nbytes: int, advice: str) -> None:
        """Advise the system about these pages. ``advice``: a name of Linux's MADV_. The system may
        ignore it."""

    def discard(self, address: int, nbytes: int) -> None:
        """Give pages of ``allocate`` back to the system. Their contents may be lost."""

    def lock(self, address: int, nbytes: int) -> str:
        """Lock these pages in memory. Returns "", or why the system refuses."""
        return "this system can't lock memory"

    def lock_limit(self) -> int | None:
        """The most bytes that this process may lock; None: any number, or unknown."""
        return None

    def n_cores(self, among: Collection[int] | None = None) -> int:
        """How many cores this process may use. Hardware threads of one core count once. With
        ``among`` only these processors count, if the system numbers them."""
        return os.cpu_count() or 1

    def processor_name(self) -> str:
        """The maker's name for the processor."""
        return platform.processor() or platform.machine()


@functools.cache
def this_system() -> System:
    """The operating system of this machine."""
    if sys.platform == "win32":
        from unladen.backends._system_windows import Windows
        return Windows()
    if sys.platform == "darwin":
        from unladen.backends._system_mac import Mac
        return Mac()
    if sys.platform == "linux":
        from unladen.backends._system_linux import Linux
        return Linux()
    return System()
