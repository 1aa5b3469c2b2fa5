"""Buffers of Metal: allocating, wrapping, reading, writing and copying them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unladen.backends._gpu.memory import HINT, GpuBuffer, part_bytes
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import Buffer
from unladen.backends.metal.device import PAGE, Gpu, Memory, closed
from unladen.errors import OutOfMemory


@dataclass(frozen=True, slots=True)
class MetalBuffer(GpuBuffer):
    """Memory on a device. The buffers of its parts are :class:`Memory`."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, row_bytes: int) -> MetalBuffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece."""
    if nbytes > (free := gpu.free_bytes()):
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=free, hint=HINT)
    part = part_bytes(gpu, nbytes, row_bytes)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
    return MetalBuffer(gpu, nbytes, tuple(Range(Memory(gpu, n), 0, n) for n in sizes), part)


def wrap(gpu: Gpu, data: Bytes) -> MetalBuffer | None:
    """``data`` where it lies, such as in a mapped file; None where kernels can't read it there,
    since it begins at an odd address or is too long for a buffer."""
    if data.ctypes.data % gpu.alignment or data.nbytes + 2 * PAGE > gpu.max_buffer:
        return None
    memory = Memory(gpu, data.nbytes, data)
    return MetalBuffer(gpu, data.nbytes, (Range(memory, 0, data.nbytes),), data.nbytes)


def write(dst: MetalBuffer, src: Bytes, offset: int) -> None:
    """Copy bytes from the host."""
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        dst.gpu.write(part.buffer, at, src[start:start + n])


def fetch(src: MetalBuffer, nbytes: int, offset: int) -> Callable[[], Bytes]:
    """Begin to read, and return a function that waits for the bytes."""
    waits = [src.gpu.read(part.buffer, at, n) for part, at, _, n in src.pieces(offset, nbytes)]
    return lambda: np.concatenate([np.empty(0, np.uint8), *(wait() for wait in waits)])


def copy(dst: MetalBuffer, dst_offset: int, src: MetalBuffer, src_offset: int, nbytes: int
         ) -> bool:
    """Copy on the device. Returns False where that isn't possible: between devices, and for buffers
    in several parts."""
    if dst.gpu is not src.gpu:
        return False
    sources, targets = list(src.pieces(src_offset, nbytes)), list(dst.pieces(dst_offset, nbytes))
    if len(sources) != 1 or len(targets) != 1:
        return False
    dst.gpu.copy(targets[0][0].buffer, targets[0][1], sources[0][0].buffer, sources[0][1], nbytes)
    return True


def of_gpu(buffer: Buffer) -> MetalBuffer:
    """``buffer``, which must be a :class:`MetalBuffer`: a plan gives each backend its own buffers.
    Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, MetalBuffer), buffer
    if buffer.gpu.is_closed:
        raise closed(buffer.gpu.name)
    return buffer
