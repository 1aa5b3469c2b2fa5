"""A second queue of a device, on which weights arrive while the first one runs kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import TYPE_CHECKING, cast

import numpy as np

from unladen.backends._gpu.pending import Pending
from unladen.backends._gpu.queued import QueueBuffer
from unladen.backends._gpu.target import Bytes
from unladen.backends.opencl import driver
from unladen.backends.opencl.driver import address

if TYPE_CHECKING:
    from unladen.backends.opencl.device import Event, Gpu, Memory


class CopyQueue:
    """The second queue of ``gpu``. It works in the order of its calls too; events order it against
    the first queue."""

    def __init__(self, gpu: Gpu) -> None:
        self.caller = gpu.caller
        self.queue = gpu.caller.make("clCreateCommandQueue", gpu.context, gpu.found.id, 0)
        self._pending: Pending[Event] = Pending()

    def write(self, event: Event, memory: Memory, offset: int, after: Event) -> None:
        """Begin to copy the bytes that ``event`` keeps, once ``after`` has come."""
        data = event.kept
        self._pending.drop_done()
        with self._pending.starting(event):
            self.caller.call(
                "clEnqueueWriteBuffer", self.queue, memory.handle, 0, offset, data.nbytes,
                address(data), 1, ctypes.byref(after.handle), ctypes.byref(event.handle),
                requested=data.nbytes)

    def flush(self) -> None:
        """Make the device begin with what it was given."""
        self.caller.call("clFlush", self.queue)

    def wait(self) -> None:
        """Wait until all bytes have arrived."""
        if self._pending.oldest() is not None:
            self.caller.call("clFinish", self.queue)
            self._pending.drop_done()

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if library is not None and hasattr(self, "queue"):
            library.clFinish(self.queue)  # it reads memory of the host until then
            library.clReleaseCommandQueue(self.queue)


def write_ahead(dst: QueueBuffer, src: Bytes, offset: int, after: Event) -> Callable[[], None]:
    """Begin to copy, and return a function that makes later work of the first queue wait for the
    bytes. The events keep their bytes until they are copied."""
    gpu = cast("Gpu", dst.gpu)
    events = []
    for part, at, start, n in dst.pieces(offset, src.nbytes):
        events.append(gpu.event(np.ascontiguousarray(src[start:start + n])))
        gpu.copies.write(events[-1], part.buffer, at, after)
    gpu.copies.flush()
    return lambda: join(gpu, events)


def join(gpu: Gpu, events: Sequence[Event]) -> None:
    """Later work of the first queue begins after ``events``."""
    if events:
        handles = (c_void_p * len(events))(*(event.handle for event in events))
        gpu.caller.call("clEnqueueMarkerWithWaitList", gpu.queue, len(events), handles, None)
