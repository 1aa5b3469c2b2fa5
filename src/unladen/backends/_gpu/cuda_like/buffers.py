"""Buffers of plans: allocating, reading, writing and copying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unladen.backends._gpu.cuda_like.device import Gpu
from unladen.backends._gpu.cuda_like.memory import Memory, growing, may_grow
from unladen.backends._gpu.cuda_like.staging import Pinned, behind, pinned
from unladen.backends._gpu.cuda_like.streams import Event
from unladen.backends._gpu.memory import GpuBuffer, allocated, one_copy
from unladen.backends._gpu.opened import open_buffer
from unladen.backends._gpu.target import Bytes
from unladen.backends.base import Buffer, Make, Use


@dataclass(frozen=True, slots=True)
class CudaBuffer(GpuBuffer):
    """Memory on a device. The buffers of its parts are :class:`Memory`."""

    gpu: Gpu


def alloc(gpu: Gpu, nbytes: int, use: Use, row_bytes: int) -> Buffer:
    """Zeroed memory, cut between rows where the device can't allocate it in one piece. A cache
    grows where the driver can do that; "staging" is pinned memory of the host."""
    if use == "staging":
        return pinned(gpu, nbytes)
    grows = use == "kv" and may_grow(gpu.context, nbytes)
    parts, part = allocated(gpu, nbytes, row_bytes, gpu.context.free_bytes(),
                            lambda n: (growing if grows else Memory)(gpu, n))
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

    read = into.event

    def wait() -> Bytes:
        into.wait()
        if read is not None:
            read.check()
        return into.data[:nbytes]

    return wait


def copy(dst: CudaBuffer, dst_offset: int, src: CudaBuffer, src_offset: int, nbytes: int) -> bool:
    """Copy on the device, or between two cards. Returns False for buffers in several parts."""
    one = one_copy(dst, dst_offset, src, src_offset, nbytes)
    if one is None:
        return not nbytes
    dst.gpu.copy(*one, nbytes)
    return True


def discard(buffer: CudaBuffer) -> None:
    """Give back the memory of a cache."""
    for part in buffer.parts:
        part.buffer.discard()


def of_gpu(buffer: Buffer) -> CudaBuffer:
    """See :func:`open_buffer`."""
    return open_buffer(buffer, CudaBuffer)
