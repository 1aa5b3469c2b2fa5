"""The keys that the server accepts now. Those of a key file are read again when it changes."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from unladen.errors import InvalidArgument
from unladen.server.keys import Key, read_keys

log = logging.getLogger("unladen.server")

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the key file while nobody asks: the log says soon that it changed.
Each request looks, too, so that a key that was removed opens nothing."""
UNSURE_NS: Final = 100_000_000
"""Nanoseconds in which a file may change twice without a new time: one that is younger is read
again at the next look."""

_Stamp: TypeAlias = tuple[int, ...]


class KeyRing:
    """The keys ``own``, which stay, and those of the key file ``path``, if there is one.

    A file that can't be used any more changes nothing: its last keys are still accepted, and the
    log says why. Raises :class:`InvalidArgument` where it can't be used at the start.
    """

    def __init__(self, own: Iterable[Key], path: Path | None = None) -> None:
        self._own, self._path = tuple(own), path
        self._read: Sequence[Key] = ()
        self._stamp: _Stamp | None = None
        self._failure = ""
        if path is not None:
            self._stamp = _sure(_stamp_of(path))
            self._read = read_keys(path)
        self._all = (*self._own, *self._read)

    def accepted(self) -> Sequence[Key]:
        """The keys that are accepted; none: everybody who reaches the server may ask."""
        if self._path is not None:
            self._look(self._path)
        return self._all

    async def watch(self) -> None:
        """Look at the key file from time to time, until this is cancelled."""
        while self._path is not None:
            await asyncio.sleep(LOOK_SECONDS)
            self._look(self._path)

    def _look(self, path: Path) -> None:
        stamp = _stamp_of(path)
        if stamp == self._stamp:
            return
        self._stamp = _sure(stamp)
        try:
            found = read_keys(path)
        except InvalidArgument as error:
            if self._failure != error.message:
                log.error("%s; the keys that were read before are still accepted", error.message)
            self._failure = error.message
            return
        self._failure = ""
        if found != self._read:
            log.info("%s has changed: %s", path, _told(self._read, found))
            self._read = found
            self._all = (*self._own, *found)


def _stamp_of(path: Path) -> _Stamp | None:
    """Tells whether a file is still the same; None: it isn't there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _sure(stamp: _Stamp | None) -> _Stamp | None:
    """``stamp``, or one that differs from every file's where the file may change unnoticed."""
    is_sure = stamp is None or time.time_ns() - max(stamp[-2:]) > UNSURE_NS
    return stamp if is_sure else ()


def _told(before: Iterable[Key], now: Iterable[Key]) -> str:
    """What is different between two lists of keys, by their names."""
    old, new = ({key.name: key for key in keys} for keys in (before, now))
    parts = (("new", [name for name in new if name not in old]),
             ("changed", [name for name in new if name in old and new[name] != old[name]]),
             ("gone", [name for name in old if name not in new]))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names) or (
        "its keys are in another order")
