"""A base for backends whose devices have one queue each: everything happens in the order of calls.

A driver adds a class for an open device (:class:`Queue`) and one for programs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from unladen.backends._gpu.memory import GpuBuffer, allocated, one_copy
from unladen.backends._gpu.opened import Opened, OpeningBackend, open_buffer
from unladen.backends._gpu.target import Bytes
from unladen.backends.base import Buffer, Device, Use
from unladen.errors import UnladenError

log = logging.getLogger("unladen")


class Queue(Opened, Protocol):
    """An open device. A ``memory`` is what the driver allocates."""

    def free_bytes(self) -> int:
        """Bytes that can be allocated now."""

    def new_memory(self, nbytes: int) -> Any:
        """Zeroed memory, freed with the last reference to it. Raises :class:`OutOfMemory`."""

    def write(self, memory: Any, offset: int, data: Bytes) -> None:
        """Write ``data``, which may change afterwards, after the work that was started before."""

    def read(self, memory: Any, offset: int, nbytes: int) -> Callable[[], Bytes]:
        """Begin to read; the function waits for the bytes."""

    def copy(self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int) -> None:
        """Copy within the device. The ranges may overlap."""

@dataclass(frozen=True, slots=True)
class QueueBuffer(GpuBuffer):
    """Memory on a device; the buffers of its parts are memories of the driver."""

    gpu: Queue


Q = TypeVar("Q", bound=Queue)


class QueueBackend(OpeningBackend[Q]):
    """See the module."""

    def close(self, device: Device) -> None:
        """See the base class. Waits for the device's work, which may use memory of the host: at the
        end of the process nobody waits for a closed device."""
        gpu = self._gpus.get(device.name)
        super().close(device)
        if gpu is not None:
            try:
                self.check_process()
                gpu.wait()
            except UnladenError as error:
                log.debug("%s isn't waited for: %s", device.name, error)

    def free_bytes(self, device: Device) -> int:
        return self.gpu(device.name).free_bytes()

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        gpu = self.gpu(device.name)
        parts, part = allocated(gpu, nbytes, row_bytes, gpu.free_bytes(), gpu.new_memory)
        return QueueBuffer(gpu, nbytes, parts, part)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        to = of_queue(dst)
        for part, at, start, n in to.pieces(offset, src.nbytes):
            to.gpu.write(part.buffer, at, src[start:start + n])

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        return self.fetch(src, nbytes, offset)()

    def fetch(self, src: Buffer, nbytes: int, offset: int = 0, staging: Buffer | None = None
              ) -> Callable[[], Bytes]:
        of = of_queue(src)
        waits = [of.gpu.read(part.buffer, at, n) for part, at, _, n in of.pieces(offset, nbytes)]
        return lambda: (waits[0]() if len(waits) == 1 else
                        np.concatenate([np.empty(0, np.uint8), *(wait() for wait in waits)]))

    def copy(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, nbytes: int) -> bool:
        """See the base class. False also for buffers in several parts."""
        to, of = of_queue(dst), of_queue(src)
        if to.gpu is not of.gpu:
            return False
        one = one_copy(to, dst_offset, of, src_offset, nbytes)
        if one is None:
            return False
        to.gpu.copy(*one, nbytes)
        return True


def of_queue(buffer: Buffer) -> QueueBuffer:
    """See :func:`open_buffer`."""
    return open_buffer(buffer, QueueBuffer)
