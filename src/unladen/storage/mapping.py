"""Maps files into memory. Imports next to nothing: while pages are mapped, all else can be."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from unladen.errors import GGUFError, ModelNotFound, UnladenError
from unladen.paths import problem_of

HEADER_BYTES = 4 + 4 + 8 + 8
"""Magic, version, how many tensors and entries: the least that a GGUF file has."""


def map_file(path: str) -> FileMapping:
    """All of the GGUF file ``path``, to be read.

    Raises :class:`ModelNotFound` where there is none, :class:`GGUFError` where it can't be one, and
    :class:`UnladenError` where the system refuses to read it.
    """
    with _typed_errors(path):
        _regular(path)  # opening another kind may have effects
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ModelNotFound(f"{path} has just become something else than a regular file",
                                    hint="leave it alone while it is opened")
            if status.st_size < HEADER_BYTES:
                empty = "" if status.st_size else "is empty: "
                raise GGUFError(f"{empty}{status.st_size} bytes are too few for a GGUF file",
                                path=path, offset=status.st_size, hint="fetch it again")
            return FileMapping(file.fileno())


def _regular(path: str) -> None:
    problem = problem_of(path)
    if problem is not None:
        raise ModelNotFound(f"{path!r} {problem.what}" if "\0" in path else
                            f"{path} {problem.what}", hint=problem.hint or "check the path")


def _at_once(path: str, flags: int) -> int:
    """Opens without waiting for whoever may write to a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except UnladenError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise ModelNotFound(f"there is no file {path}", hint="check the path") from None
    except ValueError as error:  # a NUL in the path, or a file emptied just now
        raise ModelNotFound(f"{path!r} can't be opened: {error}", hint="check the path") from None
    except OSError as error:
        raise UnladenError(f"{path} can't be read: {error.strerror}",
                           hint="check its name, its permissions and the disk") from error


_UINT64 = (1 << 64) - 1


class FileMapping(mmap.mmap):
    """A file mapped to be read, in huge pages where the system reads it from the disk now.

    ``identity``: its number, its bytes and when it was last written to, uint64 each; another file,
    or another version of it, has others.
    ``guard`` is held by whoever gives pages back to the file, or puts other memory with the same
    bytes in their place. ``is_replaced``: the latter was done, so nothing may be given back.
    """

    def __new__(cls, file: int) -> FileMapping:
        mapping = super().__new__(cls, file, 0, access=mmap.ACCESS_READ)
        if sys.platform != "win32" and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without them
                mapping.madvise(mmap.MADV_HUGEPAGE)
        return mapping

    def __init__(self, file: int) -> None:
        status = os.fstat(file)
        self.identity = (status.st_ino & _UINT64, status.st_size, status.st_mtime_ns & _UINT64)
        self.guard = threading.Lock()
        self.is_replaced = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(_free_guard, weakref.ref(self)))

    def in_small_pages(self, end: int | None) -> None:
        """From now on a byte read before ``end`` brings some pages around it, not a huge one."""
        if sys.platform != "win32" and hasattr(mmap, "MADV_NOHUGEPAGE"):
            whole = (len(self) if end is None else end) // mmap.PAGESIZE * mmap.PAGESIZE
            with contextlib.suppress(OSError):
                self.madvise(mmap.MADV_NOHUGEPAGE, 0, whole)


def _free_guard(mapping: weakref.ref[FileMapping]) -> None:
    """In a forked child nobody would ever: it may be a thread of the parent's that holds it."""
    inherited = mapping()
    if inherited is not None:
        inherited.guard = threading.Lock()
