"""Buffers of wgpu: allocating, reading, writing and copying them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unladen.backends._gpu.memory import GpuBuffer, allocated, one_copy
from unladen.backends._gpu.opened import open_buffer
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import Buffer, Use
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu


@dataclass(frozen=True, slots=True)
class WgpuBuffer(GpuBuffer):
    """Memory on a GPU. Its parts are buffers of wgpu."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, row_bytes: int, use: Use = "arena") -> WgpuBuffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece."""
    parts, part = allocated(
        gpu, nbytes, row_bytes, gpu.free_bytes(),
        lambda n: gpu.buffer(n, mappable=use == "weights", staging=use == "staging"))
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
    one = one_copy(dst, dst_offset, src, src_offset, nbytes)
    if one is None:
        return False
    gpu, (to, to_offset, of, of_offset) = dst.gpu, one
    with typed(gpu.name, requested=nbytes):
        encoder = gpu.wgpu.create_command_encoder()
        if of is to:
            # WebGPU doesn't copy within one buffer, so the bytes go through another.
            between = gpu.buffer(nbytes)
            encoder.copy_buffer_to_buffer(of, of_offset, between, 0, nbytes)
            encoder.copy_buffer_to_buffer(between, 0, to, to_offset, nbytes)
        else:
            encoder.copy_buffer_to_buffer(of, of_offset, to, to_offset, nbytes)
        gpu.queue.submit([encoder.finish()])
    return True


def of_gpu(buffer: Buffer) -> WgpuBuffer:
    """See :func:`open_buffer`."""
    return open_buffer(buffer, WgpuBuffer)
