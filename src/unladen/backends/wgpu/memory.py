"""Buffers of wgpu: allocating, reading, writing and copying them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unladen.backends._gpu.memory import HINT, GpuBuffer, part_bytes
from unladen.backends._gpu.opened import closed
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import Buffer, Use
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu
from unladen.errors import OutOfMemory


@dataclass(frozen=True, slots=True)
class WgpuBuffer(GpuBuffer):
    """Memory on a GPU. Its parts are buffers of wgpu."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, row_bytes: int, use: Use = "arena") -> WgpuBuffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece."""
    if nbytes > gpu.free_bytes():
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.free_bytes(), hint=HINT)
    part = part_bytes(gpu, nbytes, row_bytes)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
    parts = tuple(Range(gpu.buffer(n, mappable=use == "weights", staging=use == "staging"), 0, n)
                  for n in sizes)
    return WgpuBuffer(gpu, nbytes, parts, part)


def write(dst: WgpuBuffer, src: Bytes, offset: int) -> None:
    """Copy bytes from the host. Whole words are written directly. A word that has other bytes, too,
    is read first."""
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        first, last = at // 4 * 4, -(-(at + n) // 4) * 4
        data = src[start:start + n]
        if (first, last) != (at, at + n):
            padded = _read(dst.gpu, part, first, last - first).copy()
            padded[at - first:at - first + n] = data
            data = padded
        dst.gpu.write(part.buffer, first, np.ascontiguousarray(data))


def read(src: WgpuBuffer, nbytes: int, offset: int) -> Bytes:
    """A copy of ``nbytes`` bytes from ``offset`` on."""
    found = []
    for part, at, _, n in src.pieces(offset, nbytes):
        first, last = at // 4 * 4, -(-(at + n) // 4) * 4
        found.append(_read(src.gpu, part, first, last - first)[at - first:at - first + n])
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])


def _read(gpu: Gpu, part: Range, offset: int, nbytes: int) -> Bytes:
    with typed(gpu.name, requested=nbytes):
        return np.frombuffer(gpu.queue.read_buffer(part.buffer, offset, nbytes), np.uint8)


def copy(dst: WgpuBuffer, dst_offset: int, src: WgpuBuffer, src_offset: int, nbytes: int) -> bool:
    """Copy on the device. Returns False where that isn't possible: between devices, for parts of
    words, and for buffers in several parts."""
    if dst.gpu is not src.gpu or (dst_offset | src_offset | nbytes) % 4:
        return False
    sources, targets = list(src.pieces(src_offset, nbytes)), list(dst.pieces(dst_offset, nbytes))
    if len(sources) != 1 or len(targets) != 1:
        return False
    gpu, source, target = dst.gpu, sources[0], targets[0]
    with typed(gpu.name, requested=nbytes):
        encoder = gpu.wgpu.create_command_encoder()
        if source[0].buffer is target[0].buffer:
            # WebGPU doesn't copy within one buffer, so the bytes go through another.
            between = gpu.buffer(nbytes)
            encoder.copy_buffer_to_buffer(source[0].buffer, source[1], between, 0, nbytes)
            encoder.copy_buffer_to_buffer(between, 0, target[0].buffer, target[1], nbytes)
        else:
            encoder.copy_buffer_to_buffer(source[0].buffer, source[1], target[0].buffer, target[1],
                                          nbytes)
        gpu.queue.submit([encoder.finish()])
    return True


def of_gpu(buffer: Buffer) -> WgpuBuffer:
    """``buffer``, which must be a :class:`WgpuBuffer`: a plan gives each backend its own buffers.
    Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, WgpuBuffer), buffer
    if buffer.gpu.is_closed:
        raise closed(buffer.gpu.name)
    return buffer
