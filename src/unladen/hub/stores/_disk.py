"""Looks at folders and small files that other programs wrote. Their content raises no errors: a
folder that can't be read counts as empty, with a line in the log, and a file as absent."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from unladen.paths import problem_of

log = logging.getLogger("unladen")

_IS_QUIET: Final[ContextVar[bool]] = ContextVar("is_quiet", default=False)
"""Whether a folder that can't be read gets no warning in the log."""

MAX_RECORD: Final = 4 << 20
"""Bytes of a manifest or a settings file at most. Larger ones aren't such files."""
DEEPEST: Final = 8
"""Folders within one another that are searched for a repository's files."""


@contextmanager
def quietly() -> Iterator[None]:
    """Log no warnings of folders that can't be read: a list warns of them, but a search for one
    model would warn of another user's store each time."""
    token = _IS_QUIET.set(True)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)


def entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """The entries of ``folder``, sorted by name, links last; none where there is no folder."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda e: (e.is_symlink(), e.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        level = logging.DEBUG if _IS_QUIET.get() else logging.WARNING
        log.log(level, "%s can't be read: %s", printable(os.fspath(folder)), error.strerror)
        return []


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether ``entry`` is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads back to itself


def home_path(text: str | os.PathLike[str]) -> Path:
    """``text`` as a path. A leading ``~`` is the home folder; unlike :meth:`Path.expanduser`, this
    raises nothing for an unknown user's."""
    return Path(os.path.expanduser(text))


def files_below(folder: Path, depth: int = DEEPEST) -> Iterator[tuple[str, Path]]:
    """(name from ``folder`` on, path) of every file below ``folder``. Links to folders aren't
    followed."""
    for entry in entries(folder):
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from ((f"{entry.name}/{name}", path)
                            for name, path in files_below(folder / entry.name, depth - 1))
        else:
            yield entry.name, folder / entry.name


def text_of(path: Path, most: int = MAX_RECORD) -> str | None:
    """The text of a small file; None where there is none, or it isn't UTF-8."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(most + 1)
        return data.decode("utf-8") if len(data) <= most else None
    except (OSError, ValueError):
        return None  # it isn't there, can't be read, or isn't text


def _at_once(path: str, flags: int) -> int:
    """Open ``path`` without waiting for a pipe's writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def json_of(path: Path) -> Any:
    """The JSON in a small file; None where it holds none."""
    text = text_of(path)
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None  # it isn't JSON, or nests too deeply to be a record


def problem_with(path: Path) -> str:
    """Why the file at ``path`` can't be used; "" where nothing is wrong with it."""
    name = os.fspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that isn't UTF-8"
    problem = problem_of(name)
    if problem is not None:
        return problem.what
    return "" if size_of(path) else "is empty"


def size_of(path: Path) -> int:
    """The bytes of the file at ``path``; 0 where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0  # problem_with says what is wrong
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def printable(text: str) -> str:
    """``text`` with a mark for every byte that isn't UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
