"""A base for backends whose devices have one queue each: everything happens in the order of calls.

A driver adds a class for an open device (:class:`Queue`) and one for programs
(:class:`QueueProgram`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.memory import HINT, GpuBuffer, part_bytes
from unladen.backends._gpu.target import Bytes, Range, Target
from unladen.backends.base import BackendOptions, Buffer, Device, Program, Use, device_number
from unladen.errors import BackendNotInitialised, OutOfMemory


class Queue(Target, Protocol):
    """An open device. A ``memory`` is what the driver allocates."""

    is_closed: bool

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work."""

    def free_bytes(self) -> int:
        """Bytes that can be allocated now."""

    def new_memory(self, nbytes: int) -> Any:
        """Zeroed memory, freed with the last reference to it. Raises :class:`OutOfMemory`."""

    def write(self, memory: Any, offset: int, data: Bytes) -> None:
        """Write ``data``, which may change afterwards, after the work that was started before."""

    def read(self, memory: Any, offset: int, nbytes: int) -> Callable[[], Bytes]:
        """Begin to read; the function waits for the bytes."""

    def copy(self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int) -> object:
        """Copy within the device. The ranges may overlap."""

    def wait(self) -> None:
        """Wait until all started work is done."""


@dataclass(frozen=True, slots=True)
class QueueBuffer(GpuBuffer):
    """Memory on a device; the buffers of its parts are memories of the driver."""

    gpu: Queue


class QueueProgram(Program, Protocol):
    """A compiled segment."""

    cancelled: bool

    @property
    def queue(self) -> Queue:
        """The device."""

    def run(self) -> None:
        """Start the step in the batch. Raises :class:`Cancelled`."""


Q = TypeVar("Q", bound=Queue)


class QueueBackend(GpuBackend, Generic[Q]):
    """See the module. Numbers beyond the last device are more logical devices on the same ones."""

    def __init__(self) -> None:
        self._gpus: dict[str, Q] = {}
        # By name of a device. Kept when it is closed, since its kernels are still wrong afterwards.
        self._forgone: dict[str, set[tuple[str, frozenset[str]]]] = {}

    @abstractmethod
    def make(self, name: str, number: int, forgone: set[tuple[str, frozenset[str]]]) -> Q:
        """Open a device. Raises :class:`BackendNotInitialised`."""

    def open(self, device: str, options: BackendOptions) -> Device:
        number = device_number(device)
        name = f"{self.name}:{number}"
        if name not in self._gpus or self._gpus[name].is_lost:
            self._gpus[name] = self.make(name, number, self._forgone.setdefault(name, set()))
        return self._gpus[name].device

    def close(self, device: Device) -> None:
        """See the base class. What the driver made is freed with the last reference to it."""
        gpu = self._gpus.pop(device.name, None)
        if gpu is not None:
            gpu.is_closed = True

    def gpu(self, device: str) -> Q:
        """The device behind the name; raises :class:`BackendNotInitialised` where it isn't open."""
        if device not in self._gpus:
            raise closed(device)
        return self._gpus[device]

    def free_bytes(self, device: Device) -> int:
        return self.gpu(device.name).free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        gpu = self.gpu(device.name)
        if nbytes > (free := gpu.free_bytes()):
            raise OutOfMemory(device=gpu.name, requested=nbytes, free=free, hint=HINT)
        part = part_bytes(gpu, nbytes, row_bytes)
        sizes = [min(part, nbytes - start) for start in range(0, nbytes, part)]
        parts = tuple(Range(gpu.new_memory(n), 0, n) for n in sizes)
        return QueueBuffer(gpu, nbytes, parts, part)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        to = _of_queue(dst)
        for part, at, start, n in to.pieces(offset, src.nbytes):
            to.gpu.write(part.buffer, at, src[start:start + n])

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return self.fetch(src, nbytes, offset)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        of = _of_queue(src)
        waits = [of.gpu.read(part.buffer, at, n) for part, at, _, n in of.pieces(offset, nbytes)]
        return lambda: (waits[0]() if len(waits) == 1 else
                        np.concatenate([np.empty(0, np.uint8), *(wait() for wait in waits)]))

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """See the base class. False also for buffers in several parts."""
        to, of = _of_queue(dst), _of_queue(src)
        if to.gpu is not of.gpu:
            return False
        targets, sources = list(to.pieces(dst_offset, nbytes)), list(of.pieces(src_offset, nbytes))
        if len(sources) != 1 or len(targets) != 1:
            return False
        to.gpu.copy(targets[0][0].buffer, targets[0][1], sources[0][0].buffer, sources[0][1],
                    nbytes)
        return True

    def run(self, program: Program) -> None:
        mine = cast(QueueProgram, program)
        if mine.queue.is_closed:
            raise closed(mine.queue.name)
        mine.run()

    def cancel(self, program: Program) -> None:
        cast(QueueProgram, program).cancelled = True

    def sync(self, device: Device) -> None:
        self.gpu(device.name).wait()


def _of_queue(buffer: Buffer) -> QueueBuffer:
    """``buffer``, which must be a :class:`QueueBuffer`: a plan gives each backend its own buffers.
    Raises :class:`BackendNotInitialised` where its device was closed."""
    assert isinstance(buffer, QueueBuffer), buffer
    if buffer.gpu.is_closed:
        raise closed(buffer.gpu.name)
    return buffer


def closed(device: str) -> BackendNotInitialised:
    """The error for using ``device``, or a buffer or program on it, after it was closed."""
    return BackendNotInitialised(f"{device} is closed, or was never opened",
                                 hint="open it and allocate again: what was on it is gone")
