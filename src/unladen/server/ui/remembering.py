"""Remembers downloads in a file, for the next server."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from unladen.hub.download import UNFINISHED
from unladen.server.ui.shapes import Download, Problem

log = logging.getLogger("unladen.server")

FILE_NAME: Final = "downloads.json"
"""The name of the file."""
MOST_BYTES: Final = 2**20
"""Bytes of the file at most; a larger one is something else."""


class _Kept(BaseModel):
    """A download in the file."""

    id: str
    ref: str
    state: Literal["queued", "running", "paused", "failed", "done"]
    done: int
    total: int
    created: float
    error: dict[str, str] | None = None
    parts: list[str] = []


_SHAPE: Final = TypeAdapter(list[_Kept])


def usual_folder() -> Path:
    """The user's folder for what this package may lose."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "unladen")


def _shown(kept: _Kept) -> tuple[Download, list[str]]:
    wrong = kept.error
    return Download(
        id=kept.id, ref=kept.ref, state=kept.state, done=kept.done, total=kept.total, rate=0.0,
        created=kept.created, error=None if wrong is None else Problem(
            code=wrong.get("code", ""), message=wrong.get("message", ""),
            hint=wrong.get("hint", ""), param="")), [p for p in kept.parts if is_part(p)]


def is_part(path: str) -> bool:
    """Whether ``path`` is that of an unfinished download, which may be removed."""
    return (path.endswith(UNFINISHED) and os.path.isabs(path)
            and Path(path).parent.name == "blobs" and ".." not in Path(path).parts)


class DownloadFile:
    """The downloads in the file of ``folder``. One server at a time has it: the others remember
    nothing, and their log says so."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock: int | None = None
        self._is_ours = False

    def read(self) -> list[tuple[Download, list[str]]]:
        """The downloads of the last server. From now on this server has the file."""
        self._is_ours = self._taken()
        if not self._is_ours:
            return []
        try:
            with open(self._path, "rb") as file:
                return [_shown(each) for each in _SHAPE.validate_json(file.read(MOST_BYTES))]
        except FileNotFoundError:
            return []
        except (OSError, ValidationError) as error:
            log.warning("%s can't be read, so no download goes on: %s", self._path,
                        str(error).splitlines()[0])
            return []

    def write(self, downloads: Sequence[tuple[Download, list[str]]]) -> None:
        """Remember ``downloads`` in place of those before."""
        if not self._is_ours:
            return
        content = [{**shown, "parts": parts} for shown, parts in downloads]
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(json.dumps(content), encoding="utf-8")
            os.replace(beside, self._path)
        except OSError as error:
            log.warning("%s can't be written, so downloads end with this server: %s", self._path,
                        error.strerror)

    def close(self) -> None:
        """Let another server have the file."""
        self._is_ours = False
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _taken(self) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            log.warning("%s can't be used, so downloads end with this server: %s",
                        self._path.parent, error.strerror)
            return False
        if sys.platform == "win32":  # it has no such locks
            return True
        import fcntl
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        log.info("another server has %s: downloads of this one end with it", self._path)
        return False
