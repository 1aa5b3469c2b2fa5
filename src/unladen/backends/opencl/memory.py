"""Buffers of OpenCL: allocating, reading, writing and copying them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unladen.backends._gpu.memory import HINT, GpuBuffer, part_bytes
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import Buffer
from unladen.backends.opencl.device import Gpu, Memory, closed
from unladen.errors import OutOfMemory


@dataclass(frozen=True, slots=True)
class OpenClBuffer(GpuBuffer):
    """Memory on a device. The buffers of its parts are :class:`Memory`."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, row_bytes: int) -> OpenClBuffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece."""
    if nbytes > gpu.free_bytes():
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=gpu.free_bytes(), hint=HINT)
    part = part_bytes(gpu, nbytes, row_bytes)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
    return OpenClBuffer(gpu, nbytes, tuple(Range(Memory(gpu, n), 0, n) for n in sizes), part)


def write(dst: OpenClBuffer, src: Bytes, offset: int) -> None:
    """Copy bytes from the host."""
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        dst.gpu.write(part.buffer, at, src[start:start + n])


def fetch(src: OpenClBuffer, nbytes: int, offset: int) -> Callable[[], Bytes]:
    """Begin to read, and return a function that waits for the bytes."""
    events = [src.gpu.read(part.buffer, at, n) for part, at, _, n in src.pieces(offset, nbytes)]

    def wait() -> Bytes:
        for event in events:
            event.wait()
        found = [event.kept for event in events]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])

    return wait


def copy(dst: OpenClBuffer, dst_offset: int, src: OpenClBuffer, src_offset: int, nbytes: int
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


def of_gpu(buffer: Buffer) -> OpenClBuffer:
    """``buffer``, which must be an :class:`OpenClBuffer`: a plan gives each backend its own
    buffers. Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, OpenClBuffer), buffer
    if buffer.gpu.is_closed:
        raise closed(buffer.gpu.name)
    return buffer
