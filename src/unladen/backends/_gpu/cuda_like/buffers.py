"""Buffers of plans: allocating, reading, writing and copying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unladen.backends._gpu.cuda_like.device import Gpu
from unladen.backends._gpu.cuda_like.memory import Growing, Memory, may_grow
from unladen.backends._gpu.cuda_like.staging import Pinned, behind, pinned
from unladen.backends._gpu.cuda_like.streams import Event
from unladen.backends._gpu.memory import HINT, GpuBuffer, part_bytes
from unladen.backends._gpu.opened import closed
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import Buffer, Make, Use
from unladen.errors import OutOfMemory


@dataclass(frozen=True, slots=True)
class CudaBuffer(GpuBuffer):
    """Memory on a device. The buffers of its parts are :class:`Memory`."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, use: Use, row_bytes: int) -> Buffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece. A cache
    grows where the driver can do that; "staging" is pinned memory of the host."""
    if use == "staging":
        return pinned(gpu, nbytes)
    free = gpu.context.free_bytes()
    if nbytes > free:
        raise OutOfMemory(device=gpu.name, requested=nbytes, free=free, hint=HINT)
    part = part_bytes(gpu, nbytes, row_bytes)
    sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
    grows = use == "kv" and may_grow(gpu.context, nbytes)
    parts = tuple(Range((Growing if grows else Memory)(gpu, n), 0, n) for n in sizes)
    return CudaBuffer(gpu, nbytes, parts, part)


def write(dst: CudaBuffer, src: Bytes, offset: int) -> None:
    """Copy bytes from the host."""
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        dst.gpu.write(part.buffer, at, src[start:start + n])


def write_made(dst: CudaBuffer, nbytes: int, make: Make, offset: int, unit: int) -> None:
    """Copy bytes that ``make`` writes into pinned memory; see :meth:`Backend.write_made`."""
    for part, at, start, n in dst.pieces(offset, nbytes):
        dst.gpu.write_made(part.buffer, at, n, behind(make, start), unit)


def write_ahead(dst: CudaBuffer, src: Bytes, offset: int, after: Sequence[Event]
                ) -> Callable[[], None]:
    """Begin to copy bytes from the host after the events; the returned function makes later work
    wait for them."""
    arrivals = [dst.gpu.write_ahead(part.buffer, at, src[start:start + n], after)
                for part, at, start, n in dst.pieces(offset, src.nbytes)]

    def arrive() -> None:
        for each in arrivals:
            each()
    return arrive


def fetch(src: CudaBuffer, nbytes: int, offset: int, staging: Buffer | None
          ) -> Callable[[], Bytes]:
    """Begin to read, and return a function that waits for the bytes."""
    assert staging is None or isinstance(staging, Pinned), staging
    into = staging or pinned(src.gpu, nbytes)
    into.wait()  # a fetch that nobody waited for
    for part, at, start, n in src.pieces(offset, nbytes):
        src.gpu.read(part.buffer, at, n, into, start)

    def wait() -> Bytes:
        into.wait()
        return into.data[:nbytes]

    return wait


def copy(dst: CudaBuffer, dst_offset: int, src: CudaBuffer, src_offset: int, nbytes: int) -> bool:
    """Copy on the device, or between two cards. Returns False for buffers in several parts."""
    sources, targets = list(src.pieces(src_offset, nbytes)), list(dst.pieces(dst_offset, nbytes))
    if len(sources) != 1 or len(targets) != 1:
        return not nbytes
    dst.gpu.copy(targets[0][0].buffer, targets[0][1], sources[0][0].buffer, sources[0][1], nbytes)
    return True


def discard(buffer: CudaBuffer) -> None:
    """Give back the memory of a cache."""
    for part in buffer.parts:
        part.buffer.discard()


def of_gpu(buffer: Buffer) -> CudaBuffer:
    """``buffer``, which must be a :class:`CudaBuffer`: a plan gives each backend its own buffers.
    Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, CudaBuffer), buffer
    if buffer.gpu.is_closed:
        raise closed(buffer.gpu.name)
    return buffer
