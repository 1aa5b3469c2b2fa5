"""Buffers in the host's memory, for backends without a memory of their own."""

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
    """A buffer in the host's memory: ``data`` uint8 [nbytes]."""

    device: Device
    data: Bytes

    @property
    def nbytes(self) -> int:
        """The buffer's size in bytes."""
        return self.data.nbytes

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return int(self.data.ctypes.data)


def alloc_host(device: Device, nbytes: int, *, huge_pages: bool = False) -> HostBuffer:
    """A new zeroed, page-aligned buffer, whose pages are allocated when they are first used.

    Raises :class:`OutOfMemory`, also where the machine or its container has less memory left: Linux
    would grant the request and kill the process later.
    """
    free = free_host_bytes()
    if nbytes > free:
        raise _out_of_memory(device, nbytes, free)
    if nbytes == 0:
        return HostBuffer(device, np.empty(0, np.uint8))
    try:
        memory = this_system().allocate(nbytes)
    except (OSError, ValueError, OverflowError):
        raise _out_of_memory(device, nbytes, free) from None
    buffer = HostBuffer(device, np.frombuffer(memory, np.uint8))
    if huge_pages:
        this_system().advise(*_pages(buffer.data, inside=False), "HUGEPAGE")
    return buffer


def _out_of_memory(device: Device, nbytes: int, free: int) -> OutOfMemory:
    return OutOfMemory(device=device.name, requested=nbytes, free=free, hint=(
        "use a smaller context_size or batch_size, a smaller kv_type, or a smaller model"))


def _pages(data: Bytes, *, inside: bool) -> tuple[int, int]:
    """Address and bytes of the pages that are wholly in ``data`` (``inside``), or else of all pages
    that have some of it."""
    size, first = mmap.PAGESIZE, int(data.ctypes.data)
    last = first + data.nbytes
    first, last = ((-(-first // size), last // size) if inside
                   else (first // size, -(-last // size)))
    return first * size, max(0, last - first) * size


def file_of(data: Bytes) -> FileMapping | None:
    """The file mapping that has ``data`` as contiguous, read-only bytes; None for other memory.
    Only pages of such a mapping can be dropped and read again."""
    owner: object = data
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    is_plain = data.flags.c_contiguous and not data.flags.writeable
    return owner if isinstance(owner, FileMapping) and is_plain else None


def give_back(file: FileMapping, data: Bytes) -> None:
    """Drop the pages of ``file`` in ``data``, unless other memory has replaced them."""
    with file.guard:
        if not file.is_replaced:
            advise(data, "DONTNEED")


def advise(data: Bytes, advice: str) -> None:
    """Advise the system about the pages of ``data``; it may ignore the advice. ``advice``:
    "WILLNEED", "DONTNEED" (only for a mapped file), "HUGEPAGE" or "NOHUGEPAGE"."""
    if data.nbytes:
        this_system().advise(*_pages(data, inside=advice != "WILLNEED"), advice)


def lock(data: Bytes) -> None:
    """Lock the pages of ``data`` in memory until they are freed. Pages of a file are read now.
    Raises :class:`MemoryLockError`."""
    refusal = this_system().lock(*_pages(data, inside=False)) if data.nbytes else ""
    if refusal:
        raise MemoryLockError(refusal, requested=data.nbytes, limit=memory_lock_limit(),
                              hint="load without use_mlock")


def memory_lock_limit() -> int | None:
    """The most bytes that this process may lock; None: any number, or unknown."""
    return this_system().lock_limit()


def total_host_bytes() -> int:
    """The most bytes that this process can have: the machine's memory or its container's limit."""
    return this_system().total_bytes()


def machine_bytes() -> int:
    """Bytes of the machine's memory, regardless of limits."""
    return this_system().machine_bytes()


def free_host_bytes() -> int:
    """Bytes that can be allocated without swapping, in the machine and in its container."""
    return this_system().free_bytes()


def host(buffer: Buffer) -> HostBuffer:
    """``buffer``, which must be a :class:`HostBuffer`: a plan gives each backend its own
    buffers."""
    assert isinstance(buffer, HostBuffer), buffer
    return buffer


class HostMemory(Backend):
    """A backend whose devices compute in the host's memory, and whose methods return when their
    work is done. A subclass adds :meth:`open`, :meth:`supports`, :meth:`compile` and
    :meth:`run`."""

    def free_bytes(self, device: Device) -> int:
        """The smaller of the host's free bytes and the device's memory."""
        return min(device.memory_bytes, free_host_bytes())

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> HostBuffer:
        """Memory whose pages are allocated when they are first used, in huge pages where the system
        has them."""
        return alloc_host(device, nbytes, huge_pages=True)

    def discard(self, buffer: Buffer, *, densely_used: bool) -> None:
        """Give the buffer's pages back to the system."""
        data = host(buffer).data
        if data.nbytes:
            this_system().discard(*_pages(data, inside=True))
        # With huge pages a few bytes here and there would allocate almost all memory again. In a
        # densely used buffer huge pages are allocated faster than small ones.
        advise(data, "HUGEPAGE" if densely_used else "NOHUGEPAGE")

    def wrap(self, device: Device, data: Bytes) -> HostBuffer | None:
        """``data`` as a buffer, without a copy."""
        return HostBuffer(device, data)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        """Copy ``src`` into the buffer."""
        host(dst).data[offset:offset + src.nbytes] = src

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        """A view of the bytes."""
        return host(src).data[offset:offset + nbytes]

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """Copy bytes; all devices have the same memory."""
        target, source = host(dst).data, host(src).data
        target[dst_offset:dst_offset + nbytes] = source[src_offset:src_offset + nbytes]
        return True
