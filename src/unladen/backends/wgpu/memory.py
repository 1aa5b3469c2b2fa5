"""Buffers on a GPU: one for a kernel's eyes, of several where the device limits their size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Buffer, Device, Use
from unladen.backends.wgpu.failure import HINT, typed
from unladen.backends.wgpu.gpu import Gpu, Range
from unladen.errors import OutOfMemory

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class WgpuBuffer:
    """``parts`` hold ``part_bytes`` each, the last one what is left; none cuts a row."""

    gpu: Gpu
    nbytes: int
    parts: tuple[Range, ...]
    part_bytes: int

    @property
    def device(self) -> Device:
        """Where it lies."""
        return self.gpu.device

    def pieces(self, offset: int, nbytes: int) -> Iterator[tuple[Range, int, int, int]]:
        """The parts that hold a range: part, offset in it, where in the range, and how much."""
        done = 0
        while done < nbytes:
            index, at = divmod(offset + done, self.part_bytes)
            n = min(nbytes - done, self.part_bytes - at)
            yield self.parts[index], at, done, n
            done += n

    def range(self, offset: int, nbytes: int) -> Range:
        """A range that a kernel binds; raises :class:`OutOfMemory` where the device can't."""
        assert offset % self.gpu.alignment == 0, offset
        size = -(-nbytes // 4) * 4
        index, at = divmod(offset, self.part_bytes)
        if size > self.gpu.max_binding or at + nbytes > self.part_bytes:
            raise OutOfMemory(device=self.gpu.name, requested=size, free=self.gpu.max_binding,
                              hint="that is the most that a kernel can use at once here: " + HINT)
        return Range(self.parts[index].buffer, at, size)

    def rows(self, offset: int, row_bytes: int, n_rows: int) -> Iterator[tuple[Range, int, int]]:
        """``n_rows`` rows in pieces that a kernel can bind: range, first row, number of rows."""
        step = self.gpu.alignment // math.gcd(self.gpu.alignment, row_bytes)
        most = self.gpu.max_binding // row_bytes
        most = max(1, most // step * step) if most < n_rows else n_rows
        for part, at, done, n in self.pieces(offset, n_rows * row_bytes):
            for first in range(0, n // row_bytes, most):
                count = min(most, n // row_bytes - first)
                start = at + first * row_bytes
                if start % self.gpu.alignment or count * row_bytes > self.gpu.max_binding:
                    raise OutOfMemory(device=self.gpu.name, requested=row_bytes,
                                      free=self.gpu.max_binding,
                                      hint="that is the most that a kernel can use at once here")
                size = -(-count * row_bytes // 4) * 4
                yield Range(part.buffer, start, size), done // row_bytes + first, count


def alloc(gpu: Gpu, nbytes: int, row_bytes: int, use: Use = "arena") -> WgpuBuffer:
    """Zeroed memory, cut between rows where the device can't have it in one piece."""
    if nbytes > gpu.free_bytes():
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.free_bytes(), hint=HINT)
    part = nbytes if nbytes <= gpu.max_buffer else gpu.max_buffer // row_bytes * row_bytes
    if part == 0 and nbytes:
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.max_buffer, hint=HINT)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)] if nbytes else []
    parts = tuple(Range(gpu.buffer(n, mappable=use == "weights"), 0, n) for n in sizes)
    return WgpuBuffer(gpu, nbytes, parts, max(part, 1))


def write(dst: WgpuBuffer, src: Bytes, offset: int) -> None:
    """Copy bytes from the host; whole words directly, what shares a word with others by reading it
    first."""
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        first, last = at // 4 * 4, -(-(at + n) // 4) * 4
        data = src[start:start + n]
        if (first, last) != (at, at + n):
            padded = _read(dst.gpu, part, first, last - first).copy()
            padded[at - first:at - first + n] = data
            data = padded
        dst.gpu.write(part.buffer, first, np.ascontiguousarray(data))


def read(src: WgpuBuffer, nbytes: int, offset: int) -> Bytes:
    """A copy of some bytes."""
    found = []
    for part, at, _, n in src.pieces(offset, nbytes):
        first, last = at // 4 * 4, -(-(at + n) // 4) * 4
        found.append(_read(src.gpu, part, first, last - first)[at - first:at - first + n])
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])


def _read(gpu: Gpu, part: Range, offset: int, nbytes: int) -> Bytes:
    with typed(gpu.name, requested=nbytes):
        return np.frombuffer(gpu.queue.read_buffer(part.buffer, offset, nbytes), np.uint8)


def copy(dst: WgpuBuffer, dst_offset: int, src: WgpuBuffer, src_offset: int, nbytes: int) -> bool:
    """Copy on the device; False where it can't: other devices, halves of words, several parts."""
    if dst.gpu is not src.gpu or (dst_offset | src_offset | nbytes) % 4:
        return False
    sources, targets = list(src.pieces(src_offset, nbytes)), list(dst.pieces(dst_offset, nbytes))
    if len(sources) != 1 or len(targets) != 1:
        return False
    gpu, source, target = dst.gpu, sources[0], targets[0]
    with typed(gpu.name, requested=nbytes):
        encoder = gpu.wgpu.create_command_encoder()
        if source[0].buffer is target[0].buffer:
            # A buffer can't be copied onto itself.
            between = gpu.buffer(nbytes)
            encoder.copy_buffer_to_buffer(source[0].buffer, source[1], between, 0, nbytes)
            encoder.copy_buffer_to_buffer(between, 0, target[0].buffer, target[1], nbytes)
        else:
            encoder.copy_buffer_to_buffer(source[0].buffer, source[1], target[0].buffer, target[1],
                                          nbytes)
        gpu.queue.submit([encoder.finish()])
    return True


def of_gpu(buffer: Buffer) -> WgpuBuffer:
    """``buffer``, which must be one of these: a plan hands each backend its own."""
    assert isinstance(buffer, WgpuBuffer), buffer
    return buffer
