"""What a backend asks of the operating system: memory, pages, cores. One class for each system."""

from __future__ import annotations

import functools
import mmap
import os
import platform
import sys
from collections.abc import Collection

UNKNOWN_BYTES = 1 << 46
"""In place of a size that the system doesn't tell: allocation itself shows how much there is."""


class System:
    """A system of which nothing is known; those that are known override what they do better.

    An ``address`` is a page's, ``nbytes`` whole pages.
    """

    can_lock = False

    def machine_bytes(self) -> int:
        """The machine's memory, whatever this process may have of it."""
        return UNKNOWN_BYTES

    def total_bytes(self) -> int:
        """Memory that this process can have at most."""
        return self.machine_bytes()

    def free_bytes(self) -> int:
        """Memory that can still be had without swapping."""
        return UNKNOWN_BYTES

    def allocate(self, nbytes: int) -> mmap.mmap:
        """Zeroed pages that cost nothing until they are touched. Raises OSError."""
        return mmap.mmap(-1, nbytes)

    def advise(self, address: int, nbytes: int, advice: str) -> None:
        """What is to come of these pages, a name of Linux's MADV_; the system may do nothing."""

    def discard(self, address: int, nbytes: int) -> None:
        """Give back pages that ``allocate`` made. What they held may be lost."""

    def lock(self, address: int, nbytes: int) -> str:
        """Keep these pages in memory: empty, or why the system refuses."""
        return "this system can't lock memory"

    def lock_limit(self) -> int | None:
        """Bytes that this process may lock; None: any number, or unknown."""
        return None

    def n_cores(self, among: Collection[int] | None = None) -> int:
        """Cores that this process may use, hardware threads of one core counted once; of the
        processors ``among`` alone, if given and the system numbers them."""
        return os.cpu_count() or 1

    def processor_name(self) -> str:
        """The maker's name for the processor."""
        return platform.processor() or platform.machine()


@functools.cache
def this_system() -> System:
    """That of this machine."""
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
