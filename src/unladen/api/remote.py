"""Reads the header of a model on the hub, and nothing else of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from unladen.api.paper import Paper
from unladen.errors import GGUFError, UnladenError
from unladen.hub.browse import RemoteFile, beginning, remote_files

if TYPE_CHECKING:
    from unladen.hub import HubFile, HubQuant

FIRST_BYTES: Final = 4 << 20
"""Bytes of a file that are read first. Most headers fit; large vocabularies take more."""
MOST_BYTES: Final = 64 << 20
"""Bytes of a file's header at most."""
GROWTH: Final = 4
"""By how much more is read where that wasn't all."""


def remote_paper(ref: HubQuant | HubFile) -> Paper:
    """The header of the model ``ref`` on the hub. Raises what
    :func:`~unladen.hub.browse.remote_files` and :class:`Paper` raise."""
    files = remote_files(ref)
    if not all(file.size for file in files):
        raise UnladenError(f"the hub doesn't say how large {ref.repo} is",
                           hint="download it to learn more")
    # The files have their real sizes, and holes in place of the weights.
    with tempfile.TemporaryDirectory(prefix="unladen-") as folder:
        paths = [Path(folder, PurePosixPath(file.name).name) for file in files]
        n = 0
        while True:
            n, had = (n * GROWTH or FIRST_BYTES), n
            for path, file in zip(paths, files, strict=True):
                _extend(ref, path, file, had, n)
            try:
                if _is_whole(paths[0], files, n):
                    # Mapped files stay readable after they are removed.
                    return Paper(paths[0])
            except GGUFError:
                if n >= MOST_BYTES or n >= max(file.size for file in files):
                    raise
            if n >= MOST_BYTES:
                raise UnladenError(f"the header of {ref.repo} has more than {MOST_BYTES >> 20} MiB",
                                   hint="download it to learn more")


def _extend(ref: HubQuant | HubFile, path: Path, file: RemoteFile, had: int, n: int) -> None:
    """Put bytes ``had`` to ``n`` of ``file`` into ``path``."""
    if had >= file.size:
        return
    found = beginning(ref, file, min(n, file.size), had)
    with open(path, "r+b" if had else "wb") as out:
        out.seek(had)
        out.write(found)
        out.truncate(file.size)


def _is_whole(path: Path, files: Sequence[RemoteFile], n: int) -> bool:
    """Whether the first ``n`` bytes of each file hold its header. Raises :class:`GGUFError`, also
    where a header is cut off."""
    from unladen.gguf import open_gguf
    with open_gguf(os.fspath(path)) as opened:
        begins = [min((t.offset for t in opened.tensors.values() if t.file_index == i), default=0)
                  for i in range(len(files))]
    # The weights begin where the header ends, so a header that was cut off ends in the hole.
    return all(begin <= n for begin in begins)
