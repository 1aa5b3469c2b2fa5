"""Keeps conversations beyond the life of a worker: the next worker of the model goes on from them.

The file has a header, then states as :meth:`unladen.Model.save_state` makes them, each after its
length. The header is written last, so a file that isn't complete counts as empty.
"""

from __future__ import annotations

import os
import struct
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from unladen.api.begin import cached_length
from unladen.errors import UnladenError

if TYPE_CHECKING:
    from unladen.api import Model

MAX_KEPT: Final = 16
"""Conversations that are remembered: a person has few under way at a time."""
MAX_BYTES: Final = 2**29
"""Bytes of the file at most, which may be in memory."""
SAVE_SECONDS: Final = 3.0
"""Seconds after which no other conversation is saved: another model waits for the memory."""
LOAD_SECONDS: Final = 2.0
"""Seconds after which no other conversation is loaded: clients wait for the model."""
MISSING_SHARE, MISSING_TOKENS = 0.1, 64
"""The share of a conversation, or its tokens, that may be missing in the cache: the rest of a block
usually is. A conversation that lacks more is left out: computing it would take too long."""
SAME_SHARE: Final = 0.8
"""A conversation that begins with this share of another one is that one, gone on."""
_HEAD: Final = struct.Struct("<8sQ")
_LENGTH: Final = struct.Struct("<Q")
_MAGIC: Final = b"unladen1"


class Recent:
    """The conversations of the last requests."""

    def __init__(self) -> None:
        self._found: list[list[int]] = []

    def add(self, tokens: list[int]) -> None:
        """Remember a conversation of ``tokens``, all of which were computed, in place of those that
        it goes on from."""
        self._found = [each for each in self._found
                       if each[:(n := int(len(each) * SAME_SHARE))] != tokens[:n]][-MAX_KEPT + 1:]
        self._found.append(tokens)

    def newest(self) -> Sequence[list[int]]:
        """The conversations, the last one first."""
        return self._found[::-1]


def save(model: Model, recent: Recent, fd: int) -> int:
    """Write the states of ``recent`` conversations to the file ``fd``; returns how many. Nothing
    else may use the model meanwhile."""
    os.ftruncate(fd, 0)
    begun, at, n = time.monotonic(), _HEAD.size, 0
    for tokens in recent.newest():
        if time.monotonic() - begun > SAVE_SECONDS:
            break
        n_cached = cached_length(model, tokens)
        if not n_cached or len(tokens) - n_cached > max(MISSING_SHARE * len(tokens),
                                                        MISSING_TOKENS):
            continue
        state = model.save_state(tokens)
        if at + _LENGTH.size + len(state) > MAX_BYTES:
            continue
        at += _write(fd, _LENGTH.pack(len(state)), at)
        at += _write(fd, state, at)
        n += 1
    _write(fd, _HEAD.pack(_MAGIC, n), 0)
    return n


def restore(model: Model, fd: int) -> list[list[int]]:
    """Put the conversations in the file ``fd`` into the cache, the newest first, as many as there
    is time for; returns their tokens, the oldest first."""
    begun = time.monotonic()
    found: list[list[int]] = []
    try:
        states = _states(fd)
        for at, size in states:
            if found and time.monotonic() - begun > LOAD_SECONDS:
                break
            found.insert(0, model.load_state(_read(fd, size, at)))
        if found and cached_length(model, [*found[-1], 0]) < len(found[-1]):
            at, size = states[0]  # older ones took its place in a small cache
            model.load_state(_read(fd, size, at))
    except (UnladenError, OSError) as error:  # the model answers all the same, only later
        traceback.print_exception(error)
    return found


def _states(fd: int) -> list[tuple[int, int]]:
    """Where each state lies: its first byte and its bytes."""
    head = _read(fd, _HEAD.size, 0)
    if len(head) < _HEAD.size:
        return []
    magic, n = _HEAD.unpack(head)
    if magic != _MAGIC or n > MAX_KEPT:
        return []
    found, at = [], _HEAD.size
    for _ in range(n):
        size, = _LENGTH.unpack(_read(fd, _LENGTH.size, at))
        found.append((at + _LENGTH.size, size))
        at += _LENGTH.size + size
    return found


def _write(fd: int, data: bytes, at: int) -> int:
    os.lseek(fd, at, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest):]
    return len(data)


def _read(fd: int, size: int, at: int) -> bytes:
    os.lseek(fd, at, os.SEEK_SET)
    found = bytearray()
    while len(found) < size and (part := os.read(fd, size - len(found))):
        found += part
    return bytes(found)
