"""The audit: a line of JSON for each request, written by a thread of its own."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from unladen.errors import InvalidArgument

log = logging.getLogger("unladen.server")

MOST_WAITING: Final = 20_000
"""Lines that wait for the disk; more are dropped and counted, so a stuck disk fills no memory."""
_CLOSE_S: Final = 2.0
"""Seconds that the last lines have to get to the disk."""


class Audit:
    """Appends lines to ``path``, which only its owner can read. A file that was moved away is
    begun anew. Raises :class:`InvalidArgument` where it can't be opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._n_lost = 0
        self._file = self._open()
        self._thread = threading.Thread(target=self._run, name="unladen-audit", daemon=True)
        self._thread.start()

    def write(self, line: Mapping[str, Any]) -> None:
        """Write ``line`` soon. Never waits."""
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            if not self._n_lost:
                log.error("%s: the audit's lines come faster than they are written; some are lost",
                          self._path)
            self._n_lost += 1

    def close(self) -> None:
        """Write what waits, and close the file."""
        try:
            self._waiting.put(None, timeout=_CLOSE_S)
        except queue.Full:
            log.error("%s: %d lines of the audit aren't written", self._path,
                      self._waiting.qsize())
            return
        self._thread.join(_CLOSE_S)

    def _open(self) -> BinaryIO:
        try:
            # Without a buffer: what couldn't be written would wait in it.
            return open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab",
                        buffering=0)
        except OSError as error:
            raise InvalidArgument(f"{self._path}: can't write the audit: {error.strerror}",
                                  hint="name a file in a folder that you can write to") from None

    def _run(self) -> None:
        has_failed = is_closing = False
        while not is_closing:
            lines = [self._waiting.get()]
            while not self._waiting.empty():
                lines.append(self._waiting.get())
            is_closing = None in lines
            try:
                self._append([line for line in lines if line is not None])
                has_failed = False
            except (OSError, InvalidArgument) as error:
                if not has_failed:
                    log.error("%s: lines of the audit are lost: %s", self._path, error)
                has_failed = True
        self._file.close()

    def _append(self, lines: list[Mapping[str, Any]]) -> None:
        if not _is_at(self._file, self._path):
            fresh = self._open()  # where it fails, the next lines try it again
            self._file.close()
            self._file = fresh
        data = memoryview("".join(json.dumps(line) + "\n" for line in lines).encode())
        while data:
            data = data[self._file.write(data):]


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether ``path`` still leads to ``file``."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
