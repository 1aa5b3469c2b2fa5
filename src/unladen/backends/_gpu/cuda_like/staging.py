"""Pinned memory of the host, through which all copies between host and device go."""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.streams import Event, Stream
from unladen.backends._gpu.target import Bytes
from unladen.backends.base import Device, Make

if TYPE_CHECKING:
    from unladen.backends._gpu.cuda_like.device import Gpu

PORTABLE = 1
"""The flag of memory that is pinned for all cards."""
RING_BYTES, PIECE_BYTES = 16 << 20, 4 << 20
"""Bytes of the memory through which uploads go, and of the pieces of an upload."""
LINE_BYTES = 256
"""Pieces begin at a multiple of this."""


class _Owner:
    """Pinned memory as NumPy wants to see it. An array over it keeps it alive."""

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.context, self.handle = gpu.context, c_void_p()
        self.streams = gpu.streams
        gpu.context.call("alloc_host", ctypes.byref(self.handle), nbytes, PORTABLE, device=gpu.name,
                         requested=nbytes)
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "version": 3,
                                    "data": (self.handle.value, False)}

    @forks.unless_ending
    def __del__(self) -> None:
        if self.handle:
            context, handle, streams = self.context, self.handle, self.streams

            def free() -> None:
                for stream in streams:
                    stream.wait()
                context.call("free_host", handle)
            context.later(free)


@dataclass(slots=True)
class Pinned:
    """``nbytes`` pinned bytes. ``event``: the copy that writes them. As a plan's buffer for
    "staging", it belongs to ``gpu``."""

    gpu: Gpu
    nbytes: int
    data: Bytes
    event: Event | None = None

    @property
    def device(self) -> Device:
        """The device that writes the memory."""
        return self.gpu.device

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return int(self.data.ctypes.data)

    def wait(self) -> None:
        """Wait for the copy into this memory."""
        if self.event is not None:
            self.event.wait()
            self.event = None


def pinned(gpu: Gpu, nbytes: int) -> Pinned:
    """New pinned memory; raises :class:`OutOfMemory`."""
    gpu.context.enter()
    owner: Any = _Owner(gpu, max(nbytes, 1))
    return Pinned(gpu, nbytes, np.asarray(owner)[:nbytes])


def copying(data: Bytes) -> Make:
    """What makes the bytes of ``data``."""
    flat = data.reshape(-1)

    def make(out: Bytes, start: int) -> None:
        out[:] = flat[start:start + out.size]
    return make


def behind(make: Make, first: int) -> Make:
    """What makes the bytes from ``first`` on of those that ``make`` makes."""
    return lambda out, start: make(out, first + start)


class Ring:
    """Pinned memory that uploads use in turn, so that the host fills the next piece while the last
    one is copied."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self._memory, self._at = gpu, pinned(gpu, RING_BYTES), 0
        self._used: deque[tuple[int, int, Event]] = deque()

    def upload(self, address: int, nbytes: int, make: Make, stream: Stream, unit: int = 1) -> None:
        """Copy ``nbytes`` bytes to the device's memory at ``address``, on ``stream``. ``make``
        writes them, in multiples of ``unit``, before this returns."""
        most = max(unit, PIECE_BYTES // unit * unit)
        for start in range(0, nbytes, most):
            self._piece(address, start, min(most, nbytes - start), make, stream)

    def _piece(self, address: int, start: int, nbytes: int, make: Make, stream: Stream) -> None:
        at, gpu = self._room(nbytes), self.gpu
        end = at + nbytes
        make(self._memory.data[at:end], start)
        gpu.context.call("upload", address + start, self._memory.address + at, nbytes,
                         stream.handle, device=gpu.name)
        self._at = -(-end // LINE_BYTES) * LINE_BYTES
        self._used.append((at, end, stream.record()))

    def _room(self, nbytes: int) -> int:
        """Where ``nbytes`` can be written, when the copies that need this place are done."""
        at = self._at
        if at + nbytes > RING_BYTES:
            while self._used and self._used[0][0] >= at:
                self._used.popleft()[2].wait()
            at = 0
        while self._used and self._used[0][0] < at + nbytes and self._used[0][1] > at:
            self._used.popleft()[2].wait()
        return at
