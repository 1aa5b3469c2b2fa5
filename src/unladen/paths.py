"""What a name leads to where it doesn't lead to a file: said in words, with what to try."""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

N_LISTED: Final = 4
"""Files of a folder that a hint names."""
N_SEEN: Final = 10_000
"""Entries of a folder that are looked through."""

_FIRST_PART: Final = re.compile(r"-00001-of-\d{5}\.gguf$")
_KINDS: Final = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
                 (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a block device"))


class Problem(NamedTuple):
    """Why a name is of no use: ``what`` follows the name, ``hint`` says what to try."""

    what: str
    hint: str


def problem_of(name: str) -> Problem | None:
    """Why ``name`` can't be opened as a file; None: it can, as far as can be told beforehand."""
    if "\0" in name:
        return Problem("holds a NUL, which no name of a file does", "check the path")
    try:
        status = os.stat(name)
    except OSError as error:
        return _unseen(name, error)
    except ValueError as error:  # what the system's names can't be written in
        return Problem(f"is no name of a file: {error}", "check the path")
    return _unfit(name, status.st_mode)


def _unfit(name: str, mode: int) -> Problem | None:
    if stat.S_ISDIR(mode):
        return Problem("is a directory", _inside(name))
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            return Problem(f"is {kind}, no file", "models are mapped into memory: give a file")
    if not os.access(name, os.R_OK):
        return Problem("can't be read: permission denied", "change its permissions (chmod u+r)")
    return None


def _unseen(name: str, error: OSError) -> Problem:
    if error.errno == errno.ELOOP:
        return Problem("is a link that leads back to itself", "remove it, and link to the file")
    if error.errno == errno.ENAMETOOLONG:
        return Problem("is too long for a name of a file", "check the path")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Problem("can't be looked at: permission denied",
                       "change the permissions of the folders above it")
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        return Problem(f"can't be looked at: {error.strerror}", "check the path and the disk")
    if os.path.islink(name):
        return Problem(f"is a link to {os.readlink(name)}, which doesn't exist",
                       "get that file again, or remove the link")
    above = next((p for p in Path(name).parents if os.path.lexists(p)), None)
    if above is not None and not above.is_dir():
        return Problem(f"doesn't exist: {above} is no directory", "check the path")
    near = similar(name)
    return Problem("doesn't exist", f"did you mean {' or '.join(near)}?" if near else "")


def similar(name: str) -> list[str]:
    """Files that ``name`` may have meant: the same in another case or with .gguf behind it, the
    first of its parts, else GGUF files of a name much like it."""
    folder, base = os.path.split(name)
    files = _files(folder or ".")
    wanted = base.strip().casefold()
    found = [f for f in files if _FIRST_PART.sub(".gguf", f).casefold() in (
        wanted, f"{wanted}.gguf")]
    if not found and base:
        import difflib
        found = difflib.get_close_matches(base, [f for f in files if _is_gguf(f)], 2, 0.8)
    return [os.path.join(folder, f) for f in found[:N_LISTED]]


def _inside(folder: str) -> str:
    """What to try in place of ``folder``."""
    found = [os.path.join(folder, f) for f in _files(folder) if _is_gguf(f)]
    if not found:
        return "give the path of a .gguf file; there is none in it"
    more = f", ... ({len(found)} in all)" if len(found) > N_LISTED else ""
    return f"give a file of it: {', '.join(found[:N_LISTED])}{more}"


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _files(folder: str) -> list[str]:
    """Names of the files in ``folder``, sorted; none where it can't be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in islice(entries, N_SEEN) if e.is_file())
    except OSError:
        return []
