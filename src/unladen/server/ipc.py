"""Frames between the server and its workers: a length, then compact JSON.

A frame has a list of messages, so that all events of a step travel in one write. A message is a
list whose first item is its kind.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

Message: TypeAlias = list[Any]

_HEAD: Final = struct.Struct(">I")
MAX_FRAME: Final = 2**30
"""Bytes of a frame at most: more than the largest body that a server may accept, and few enough
that a broken length isn't taken for a frame."""
READ_BYTES: Final = 2**18
"""Bytes that are read at once: a frame of many events in one piece."""

_write = json.JSONEncoder(separators=(",", ":")).encode


class BrokenFrame(Exception):
    """The other side sent bytes that aren't frames."""


def frame(messages: Sequence[Message]) -> bytes:
    """The bytes of ``messages``."""
    # ASCII only, since texts of clients may have halves of surrogate pairs, which UTF-8 lacks.
    body = _write(messages).encode("ascii")
    return _HEAD.pack(len(body)) + body


class Frames:
    """Takes a stream of bytes apart. Bytes of a frame that isn't complete wait for the rest."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that ``data`` completes; raises :class:`BrokenFrame`."""
        rest = self._rest
        rest += data
        found: list[Message] = []
        at = 0
        while len(rest) - at >= _HEAD.size:
            n, = _HEAD.unpack_from(rest, at)
            if n > MAX_FRAME:
                raise BrokenFrame(f"a frame of {n} bytes is announced")
            if len(rest) - at - _HEAD.size < n:
                break
            begin = at + _HEAD.size
            found += _messages(bytes(rest[begin:begin + n]))
            at = begin + n
        del rest[:at]
        return found


def _messages(body: bytes) -> list[Message]:
    try:
        messages = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a frame isn't JSON: {error}") from None
    if not isinstance(messages, list) or not all(
            isinstance(each, list) and each and isinstance(each[0], str) for each in messages):
        raise BrokenFrame("a frame isn't a list of messages")
    return messages


class Outbox:
    """Writes frames to the file descriptor ``fd``; threads may share it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, messages: Sequence[Message]) -> None:
        """Write ``messages`` as one frame; raises :class:`OSError` where nobody reads them."""
        data = memoryview(frame(messages))
        with self._lock:
            while data:
                data = data[os.write(self._fd, data):]
