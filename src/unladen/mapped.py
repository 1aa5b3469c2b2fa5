"""Maps files into memory. Imports next to nothing: while pages are mapped, all else can be."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from unladen.errors import GGUFError, ModelNotFound, UnladenError
from unladen.paths import problem_of
from unladen.types import FileMapping

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
