"""Says in words why a name doesn't lead to a file, and what to try."""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

N_LISTED: Final = 4
"""The most files of a folder that a hint names."""
N_SEEN: Final = 10_000
"""The most entries of a folder that are searched for similar names."""

_FIRST_PART: Final = re.compile(r"-00001-of-\d{5}\.gguf$")
"""Ends the name of the first part of a split model."""
_KINDS: Final = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
                 (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a block device"))
"""What a file is that isn't a regular one, each with the test of its mode."""


class Problem(NamedTuple):
    """Why a name can't be used. ``what`` continues a sentence after the name; ``hint`` says what to
    try."""

    what: str
    hint: str


def problem_of(name: str) -> Problem | None:
    """Why ``name`` can't be opened as a file; None if no reason is found before opening it."""
    if "\0" in name:
        return Problem("contains a NUL, which no file's name can", "check the path")
    try:
        status = os.stat(name)
    except OSError as error:
        return _unseen(name, error)
    except ValueError as error:  # it has characters that no name of a file can have
        return Problem(f"can't be a file's name: {error}", "check the path")
    return _unfit(name, status.st_mode)


def _unfit(name: str, mode: int) -> Problem | None:
    if stat.S_ISDIR(mode):
        return Problem("is a directory", _inside(name))
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            return Problem(f"is {kind}, not a file", "models are mapped into memory: give a file")
    if not os.access(name, os.R_OK):
        return Problem("can't be read: permission denied", "change its permissions (chmod u+r)")
    return None


def _unseen(name: str, error: OSError) -> Problem:
    if error.errno == errno.ELOOP:
        return Problem("is a link that leads back to itself", "remove it, and link to the file")
    if error.errno == errno.ENAMETOOLONG:
        return Problem("is too long for a file's name", "check the path")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Problem("can't be accessed: permission denied",
                       "change the permissions of the folders above it")
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        return Problem(f"can't be accessed: {error.strerror}", "check the path and the disk")
    if os.path.islink(name):
        return Problem(f"is a link to {os.readlink(name)}, which doesn't exist",
                       "get that file again, or remove the link")
    above = next((p for p in Path(name).parents if os.path.lexists(p)), None)
    if above is not None and not above.is_dir():
        return Problem(f"doesn't exist: {above} isn't a folder", "check the path")
    near = similar(name)
    return Problem("doesn't exist", f"did you mean {' or '.join(near)}?" if near else "")


def similar(name: str) -> list[str]:
    """Files that ``name`` may mean: the same name in another case or with .gguf added, the first
    part of a split model, else GGUF files with a similar name."""
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
    """The hint for ``folder``, where a file is needed."""
    found = [os.path.join(folder, f) for f in _files(folder) if _is_gguf(f)]
    if not found:
        return "give the path of a .gguf file; there is none in it"
    more = f", ... ({len(found)} in all)" if len(found) > N_LISTED else ""
    return f"give a file in it: {', '.join(found[:N_LISTED])}{more}"


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf")


def _files(folder: str) -> list[str]:
    """Names of the files in ``folder``, sorted; none where it can't be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in islice(entries, N_SEEN) if e.is_file())
    except OSError:
        return []
