"""Buffers as kernels bind them: cut into parts where the device limits the size of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unladen.backends._gpu.target import Bytes, Range, Target
from unladen.backends.base import Buffer, Device
from unladen.errors import OutOfMemory
from unladen.quants import codebook

HINT = "use a smaller context_size or batch_size, a smaller kv_type, or fewer layers on the device"
"""The hint of errors about a device with too little memory."""
MOST_AT_ONCE = "that is the most that a kernel can use at once here"
"""Explains the size in an error about a range that is too long to be bound."""


@dataclass(frozen=True, slots=True)
class GpuBuffer:
    """Memory in ``parts`` of ``part_bytes`` each; the last part has the rest. No row is cut."""

    gpu: Target
    nbytes: int
    parts: tuple[Range, ...]
    part_bytes: int

    @property
    def device(self) -> Device:
        """The device that has the memory."""
        return self.gpu.device

    def pieces(self, offset: int, nbytes: int) -> Iterator[tuple[Range, int, int, int]]:
        """The parts that hold a range, each as (part, offset in the part, offset in the range,
        bytes)."""
        done = 0
        while done < nbytes:
            index, at = divmod(offset + done, self.part_bytes)
            n = min(nbytes - done, self.part_bytes - at)
            yield self.parts[index], at, done, n
            done += n

    def range(self, offset: int, nbytes: int) -> Range:
        """The range to bind for these bytes, in whole words. Raises :class:`OutOfMemory` where the
        device can't bind it in one piece."""
        assert offset % self.gpu.alignment == 0, offset
        size = -(-nbytes // 4) * 4
        index, at = divmod(offset, self.part_bytes)
        if size > self.gpu.max_binding or at + nbytes > self.part_bytes:
            raise OutOfMemory(device=self.gpu.name, requested=size, free=self.gpu.max_binding,
                              hint=f"{MOST_AT_ONCE}: {HINT}")
        return Range(self.parts[index].buffer, at, size)

    def whole(self) -> Range:
        """The range of the whole buffer. Raises :class:`OutOfMemory` where the device can't bind it
        in one piece."""
        return self.range(0, self.nbytes)

    def rows(self, offset: int, row_bytes: int, n_rows: int) -> Iterator[tuple[Range, int, int]]:
        """``n_rows`` rows in pieces that a kernel can bind, each as (range, first row, number of
        rows)."""
        step = self.gpu.alignment // math.gcd(self.gpu.alignment, row_bytes)
        most = self.gpu.max_binding // row_bytes
        most = max(1, most // step * step) if most < n_rows else n_rows
        for part, at, done, n in self.pieces(offset, n_rows * row_bytes):
            for first in range(0, n // row_bytes, most):
                count = min(most, n // row_bytes - first)
                start = at + first * row_bytes
                if start % self.gpu.alignment or count * row_bytes > self.gpu.max_binding:
                    raise OutOfMemory(device=self.gpu.name, requested=row_bytes,
                                      free=self.gpu.max_binding, hint=MOST_AT_ONCE)
                size = -(-count * row_bytes // 4) * 4
                yield Range(part.buffer, start, size), done // row_bytes + first, count


def part_bytes(gpu: Target, nbytes: int, row_bytes: int) -> int:
    """Bytes of each part but the last, in whole rows, of a buffer of ``nbytes``. Raises
    :class:`OutOfMemory` where a row is longer than the device's largest buffer."""
    part = nbytes if nbytes <= gpu.max_buffer else gpu.max_buffer // row_bytes * row_bytes
    if part == 0 and nbytes:
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.max_buffer, hint=HINT)
    return max(part, 1)


def allocated(gpu: Target, nbytes: int, row_bytes: int, free: int, new: Callable[[int], Any]
              ) -> tuple[tuple[Range, ...], int]:
    """The parts of a buffer of ``nbytes``, and the bytes of each but the last. ``new`` makes the
    memory of a part. Raises :class:`OutOfMemory` where fewer than ``nbytes`` are ``free``."""
    if nbytes > free:
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=free, hint=HINT)
    part = part_bytes(gpu, nbytes, row_bytes)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
    return tuple(Range(new(n), 0, n) for n in sizes), part


def one_copy(dst: GpuBuffer, dst_offset: int, src: GpuBuffer, src_offset: int, nbytes: int
             ) -> tuple[Any, int, Any, int] | None:
    """A copy as one of drivers' memories: target, offset, source, offset. None where it meets
    several parts of a buffer, or no byte."""
    targets, sources = list(dst.pieces(dst_offset, nbytes)), list(src.pieces(src_offset, nbytes))
    if len(sources) != 1 or len(targets) != 1:
        return None
    (to, to_offset, _, _), (of, of_offset, _, _) = targets[0], sources[0]
    return to.buffer, to_offset, of.buffer, of_offset


def codebook_bytes(name: str) -> Bytes:
    """The bytes of the codebook ``name`` as kernels read them."""
    return np.ascontiguousarray(codebook(name)).view(np.uint8).reshape(-1)


def of_gpu(buffer: Buffer) -> GpuBuffer:
    """``buffer``, which must be a :class:`GpuBuffer`: a plan gives each backend its own buffers."""
    assert isinstance(buffer, GpuBuffer), buffer
    return buffer
