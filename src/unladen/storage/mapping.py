"""Maps files into memory. It imports little, so that pages are mapped while all else is
imported."""

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
"""Bytes of the shortest GGUF file: magic, version, and the counts of tensors and entries."""


def map_file(path: str) -> FileMapping:
    """The whole file ``path``, mapped for reading.

    Raises :class:`ModelNotFound` where no file has this path, :class:`GGUFError` where the file is
    too short for GGUF, and :class:`UnladenError` where the system refuses to read it.
    """
    with _typed_errors(path):
        _regular(path)  # opening a device or a pipe may have effects
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ModelNotFound(f"{path} was replaced by something that isn't a regular file",
                                    hint="don't change the path while the model is loaded")
            if status.st_size < HEADER_BYTES:
                empty = "" if status.st_size else "is empty: "
                raise GGUFError(f"{empty}{status.st_size} bytes are too few for a GGUF file",
                                path=path, offset=status.st_size, hint="download the file again")
            return FileMapping(file.fileno())


def _regular(path: str) -> None:
    problem = problem_of(path)
    if problem is not None:
        raise ModelNotFound(f"{path!r} {problem.what}" if "\0" in path else
                            f"{path} {problem.what}", hint=problem.hint or "check the path")


def _at_once(path: str, flags: int) -> int:
    """Open ``path`` without waiting: if it has just become a pipe, it may have no writer."""
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
"""Mask for numbers that are stored as uint64."""


class FileMapping(mmap.mmap):
    """A file mapped for reading. Parts that the system reads from the disk now get huge pages.

    * ``identity``: the file's number, its size in bytes and its time of the last change, uint64
      each. Another file or another version of this one has another identity.
    * ``guard``: a lock to hold while pages of the file are given back to the system, or replaced by
      other memory with the same bytes.
    * ``is_replaced``: some pages were replaced, so none may be given back.
    """

    def __new__(cls, file: int) -> FileMapping:
        mapping = super().__new__(cls, file, 0, access=mmap.ACCESS_READ)
        if sys.platform != "win32" and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
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
        """Make reads before byte ``end`` (None: in the whole file) map a few small pages around the
        byte instead of a huge page."""
        if sys.platform != "win32" and hasattr(mmap, "MADV_NOHUGEPAGE"):
            whole = (len(self) if end is None else end) // mmap.PAGESIZE * mmap.PAGESIZE
            with contextlib.suppress(OSError):
                self.madvise(mmap.MADV_NOHUGEPAGE, 0, whole)


def _free_guard(mapping: weakref.ref[FileMapping]) -> None:
    """Give a forked child a new lock: a thread of the parent may hold the old one, and no thread of
    the child would release it."""
    inherited = mapping()
    if inherited is not None:
        inherited.guard = threading.Lock()
