"""Reads a mapped header from front to back and never past its end."""

from __future__ import annotations

import copy
import mmap
import struct
from typing import Literal

import numpy as np
import numpy.typing as npt

from unladen._native import gguf as native
from unladen.errors import GGUFError

TRUNCATED = "the file was cut short or is damaged: fetch it again"
"""Hint for a file that ends too early."""


class Cursor:
    """A position ``pos`` in a mapped file; every read raises :class:`GGUFError` at its end."""

    def __init__(self, path: str, mapping: mmap.mmap, order: Literal["<", ">"], pos: int) -> None:
        self.path = path
        self.order = order
        self.pos = pos
        self.bytes = np.frombuffer(mapping, np.uint8)
        self._mapping = mapping
        self._u32 = struct.Struct(order + "I")
        self._u64 = struct.Struct(order + "Q")

    def at(self, pos: int) -> Cursor:
        """Another cursor on the same file, at ``pos``."""
        other = copy.copy(self)
        other.pos = pos
        return other

    def error(self, message: str, *, offset: int | None = None, hint: str = "") -> GGUFError:
        """A :class:`GGUFError` for ``offset``, by default the current position."""
        return GGUFError(message, path=self.path, offset=self.pos if offset is None else offset,
                         hint=hint)

    def need(self, n_bytes: int, what: str) -> None:
        """Raise unless ``n_bytes`` more bytes follow."""
        left = self.bytes.size - self.pos
        if n_bytes > left:
            raise self.error(f"{what} needs {n_bytes} bytes, {left} are left", hint=TRUNCATED)

    def count(self, item_bytes: int, what: str) -> int:
        """Read a uint64 that counts items of at least ``item_bytes`` each, which must fit."""
        start = self.pos
        n = self.u64(f"the number of {what}")
        left = self.bytes.size - self.pos
        if n * item_bytes > left:
            raise self.error(f"{n} {what} can't fit in the {left} bytes that are left",
                             offset=start, hint=TRUNCATED)
        return n

    def take(self, n_bytes: int, what: str) -> bytes:
        """Read ``n_bytes`` bytes."""
        self.need(n_bytes, what)
        self.pos += n_bytes
        return self._mapping[self.pos - n_bytes:self.pos]

    def u32(self, what: str) -> int:
        """Read a uint32."""
        return int(self._u32.unpack(self.take(4, what))[0])

    def u64(self, what: str) -> int:
        """Read a uint64."""
        return int(self._u64.unpack(self.take(8, what))[0])

    def string(self, what: str) -> bytes:
        """Read a string: its length as uint64, then its bytes."""
        return self.take(self.count(1, f"bytes of {what}"), what)

    def name(self, what: str) -> str:
        """Read a string that must be UTF-8, because other things refer to it."""
        start = self.pos
        raw = self.string(what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error(f"{what} {raw[:64]!r} isn't UTF-8", offset=start) from None

    def numbers(self, code: str, n: int, what: str) -> npt.NDArray[np.generic]:
        """A view of ``n`` numbers in the file's byte order; may be unaligned."""
        dtype = np.dtype(self.order + code)
        self.need(n * dtype.itemsize, what)
        view = self.bytes[self.pos:self.pos + n * dtype.itemsize].view(dtype)
        self.pos += view.nbytes
        return view

    def string_starts(self, n: int, what: str) -> npt.NDArray[np.int64]:
        """Pass over ``n`` strings; int64 [n + 1] offsets of their lengths, then of their end."""
        starts = native.string_starts(self.bytes, self.pos, n, self.order == ">")
        if len(starts) <= n:
            # The error is at the last string that begins inside the file.
            inside = [int(start) for start in starts[-2:] if start + 8 <= self.bytes.size]
            raise self.error(f"string {len(starts) - 1} of {n} in {what} runs past the end of the "
                             "file", offset=inside[-1] if inside else self.pos, hint=TRUNCATED)
        self.pos = int(starts[-1])
        return starts
