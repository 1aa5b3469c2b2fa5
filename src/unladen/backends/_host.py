"""Buffers in the host's own memory: what every backend without a memory of its own uses."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.backends._system import this_system
from unladen.backends.base import Backend, Buffer, Device, Use
from unladen.errors import MemoryLockError, OutOfMemory
from unladen.storage.mapping import FileMapping

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """Bytes of the host: ``data`` uint8 [nbytes]."""

    device: Device
    data: Bytes

    @property
    def nbytes(self) -> int:
        """How large it is."""
        return self.data.nbytes

    @property
    def address(self) -> int:
        """Where it lies."""
        return int(self.data.ctypes.data)


def alloc_host(device: Device, nbytes: int, *, huge_pages: bool = False) -> HostBuffer:
    """Zeroed, page-aligned memory that costs nothing until it is touched.

    Raises :class:`OutOfMemory`, also where the machine or its container hasn't that much left:
    Linux would grant the request and kill the process later.
    """
    free = free_host_bytes()
    hint = "use a smaller context_size or batch_size, a smaller kv_type, or a smaller model"
    if nbytes > free:
        raise OutOfMemory(device=device.name, requested=nbytes, free=free, hint=hint)
    if nbytes == 0:
        return HostBuffer(device, np.empty(0, np.uint8))
    try:
        memory = this_system().allocate(nbytes)
    except (OSError, ValueError, OverflowError):
        raise OutOfMemory(device=device.name, requested=nbytes, free=free, hint=hint) from None
    buffer = HostBuffer(device, np.frombuffer(memory, np.uint8))
    if huge_pages:
        this_system().advise(*_pages(buffer.data, inside=False), "HUGEPAGE")
    return buffer


def _pages(data: Bytes, *, inside: bool) -> tuple[int, int]:
    """The pages that ``data`` lies in, or those that lie in it."""
    size, first = mmap.PAGESIZE, int(data.ctypes.data)
    last = first + data.nbytes
    first, last = ((-(-first // size), last // size) if inside
                   else (first // size, -(-last // size)))
    return first * size, max(0, last - first) * size


def file_of(data: Bytes) -> FileMapping | None:
    """The mapped file that ``data`` lies in side by side, to be read: only such pages come back
    after they have been dropped."""
    owner: object = data
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    is_plain = data.flags.c_contiguous and not data.flags.writeable
    return owner if isinstance(owner, FileMapping) and is_plain else None


def give_back(file: FileMapping, data: Bytes) -> None:
    """Drop the pages of ``file`` in ``data``, as far as they are still the file's."""
    with file.guard:
        if not file.is_replaced:
            advise(data, "DONTNEED")


def advise(data: Bytes, advice: str) -> None:
    """Tell the system "WILLNEED", "DONTNEED" (a mapped file's alone) or which pages to take in
    ``data``; it may do nothing."""
    if data.nbytes:
        this_system().advise(*_pages(data, inside=advice != "WILLNEED"), advice)


def lock(data: Bytes) -> None:
    """Keep the pages of ``data`` in memory until they are freed; those of a file are read now.
    Raises :class:`MemoryLockError`."""
    refusal = this_system().lock(*_pages(data, inside=False)) if data.nbytes else ""
    if refusal:
        raise MemoryLockError(refusal, requested=data.nbytes, limit=memory_lock_limit(),
                              hint="load without use_mlock")


def memory_lock_limit() -> int | None:
    """Bytes that this process may lock, as its limits have it; None: any number, or unknown."""
    return this_system().lock_limit()


def total_host_bytes() -> int:
    """Memory that this process can have at most: the machine's, or its container's."""
    return this_system().total_bytes()


def machine_bytes() -> int:
    """The machine's memory, whatever this process may have of it."""
    return this_system().machine_bytes()


def free_host_bytes() -> int:
    """Memory that can still be had without swapping, in the machine and in its container."""
    return this_system().free_bytes()


def host(buffer: Buffer) -> HostBuffer:
    """``buffer``, which must be one of these: a plan hands each backend its own."""
    assert isinstance(buffer, HostBuffer), buffer
    return buffer


class HostMemory(Backend):
    """A backend whose devices compute on the host's memory, done with each call when it returns;
    what is missing are :meth:`open`, :meth:`supports`, :meth:`compile` and :meth:`run`."""

    def free_bytes(self, device: Device) -> int:
        """What the system has left, or the device."""
        return min(device.memory_bytes, free_host_bytes())

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> HostBuffer:
        """Memory that costs nothing until it is touched, in huge pages where there are some."""
        return alloc_host(device, nbytes, huge_pages=True)

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """Give the buffer's pages back to the system."""
        data = host(buffer).data
        if data.nbytes:
            this_system().discard(*_pages(data, inside=True))
        # In huge pages a little here and there would take all of it again; but they come back
        # faster than as many small ones.
        advise(data, "HUGEPAGE" if densely_used else "NOHUGEPAGE")

    def wrap(self, device: Device, data: Bytes) -> HostBuffer | None:
        """The same memory as a buffer."""
        return HostBuffer(device, data)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        """Copy bytes."""
        host(dst).data[offset:offset + src.nbytes] = src

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        """A view of the bytes."""
        return host(src).data[offset:offset + nbytes]

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """Copy bytes; all devices have the same memory."""
        target, source = host(dst).data, host(src).data
        target[dst_offset:dst_offset + nbytes] = source[src_offset:src_offset + nbytes]
        return True
