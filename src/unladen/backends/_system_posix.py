"""The part that Linux and macOS share: pages through the C library."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

from unladen.backends._system import System


class Posix(System):
    """A system whose C library, ``libc``, handles pages; None takes the process's own library."""

    can_lock = True

    def __init__(self, libc: Any = None) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if libc is None else libc

    def allocate(self, nbytes: int) -> mmap.mmap:
        if sys.platform == "win32":  # tells type checkers that these names are missing there
            return super().allocate(nbytes)
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def advise(self, address: int, nbytes: int, advice: str) -> None:
        number = getattr(mmap, f"MADV_{advice}", None)
        if number is not None and nbytes:
            self._madvise(address, nbytes, number)

    def discard(self, address: int, nbytes: int) -> None:
        self.advise(address, nbytes, "DONTNEED")

    def lock(self, address: int, nbytes: int) -> str:
        if self._libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(nbytes)) == 0:
            return ""
        return os.strerror(ctypes.get_errno())

    def lock_limit(self) -> int | None:
        if sys.platform == "win32":
            return None
        import resource
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        return None if soft == resource.RLIM_INFINITY else soft

    def _madvise(self, address: int, nbytes: int, number: int) -> None:
        self._libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), number)
