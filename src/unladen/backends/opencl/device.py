"""One logical device: its context and queue, its memory, and the kernels compiled so far."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Mapping
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.c_texts import Source
from unladen.backends._gpu.memory import HINT, codebook_bytes
from unladen.backends._gpu.pending import Pending
from unladen.backends._gpu.target import Bytes, Constants, Family, Range
from unladen.backends._host import free_host_bytes
from unladen.backends.opencl import driver, features, recording
from unladen.backends.opencl.building import ENTRY, Builder, most_threads, options_of
from unladen.backends.opencl.copying import CopyQueue
from unladen.backends.opencl.driver import Caller, address
from unladen.backends.opencl.platforms import LONGEST_BINDING, device_of, found_of
from unladen.backends.opencl.recording import Recorder
from unladen.errors import OutOfMemory, UnladenError, UnsupportedOp

log = logging.getLogger("unladen")

PORT = c_texts.FOLDER / "ports/opencl.h"
WRITE_BYTES = 8 << 20
"""An upload of more bytes waits until it is done; a smaller one leaves a copy of the bytes."""
COMPLETE = 0
"""CL_COMPLETE of cl.h."""
EVENT_STATUS = 0x11D3
"""CL_EVENT_COMMAND_EXECUTION_STATUS of cl.h."""


class Memory:
    """A buffer of the driver, freed with the last reference to it."""

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.handle: c_void_p | None = None
        self.gpu, self.nbytes = gpu, max(16, -(-nbytes // 16) * 16)
        free = min(gpu.free_bytes(), gpu.max_buffer)
        if self.nbytes > free:
            raise OutOfMemory(device=gpu.name, requested=self.nbytes, free=free, hint=HINT)
        self.handle = gpu.caller.make("clCreateBuffer", gpu.context, driver.MEM_READ_WRITE,
                                      self.nbytes, None, requested=self.nbytes, free=free)
        gpu.count(self.nbytes)
        zero = ctypes.c_uint32(0)
        gpu.caller.call("clEnqueueFillBuffer", gpu.queue, self.handle, ctypes.byref(zero), 4, 0,
                        self.nbytes, 0, None, None, requested=self.nbytes, free=free)

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if self.handle is not None and library is not None:
            library.clReleaseMemObject(self.handle)
            self.gpu.count(-self.nbytes)


class Event:
    """Something that the device will have done, and the memory of the host that it needs until
    then."""

    def __init__(self, caller: Caller, kept: Any = None) -> None:
        self.caller, self.kept = caller, kept
        self.handle = c_void_p()

    def wait(self) -> None:
        """Wait until it is done. Raises :class:`DeviceLost` and the like."""
        self.caller.call("clWaitForEvents", 1, ctypes.byref(self.handle))

    def bytes(self) -> Bytes:
        """What the device has read, once it is done."""
        self.wait()
        found: Bytes = self.kept
        return found

    @property
    def is_started(self) -> bool:
        """Whether the device has it."""
        return bool(self.handle)

    @property
    def is_done(self) -> bool:
        """Whether it is done, or has failed."""
        if not self.handle:
            return False
        status, library = ctypes.c_int32(0), driver.library()
        assert library is not None
        failed = library.clGetEventInfo(self.handle, EVENT_STATUS, 4, ctypes.byref(status), None)
        return bool(failed) or status.value <= COMPLETE

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if self.handle and library is not None:
            library.clReleaseEvent(self.handle)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's text and the driver's program of it."""

    source: Source
    program: c_void_p


class Gpu:
    """A logical device; it implements :class:`~unladen.backends._gpu.queued.Queue`. All models on
    the device share it."""

    family: Family = c_texts
    launched_bytes = 0
    alignment = 16
    max_storage_buffers = 32

    def __init__(self, name: str, number: int, forgone: set[tuple[str, frozenset[str]]]) -> None:
        found = self.found = found_of(number)
        self.device = device_of(found, name)
        self.features = features.chosen(found.available, found.name)
        self.forgone = forgone
        self.is_closed = False
        self.max_buffer = found.max_buffer
        self.workgroup_bytes = found.workgroup_bytes
        self.max_binding = min(found.max_buffer, LONGEST_BINDING)
        self.used_bytes = 0
        # Reentrant, since memory may be freed at any moment.
        self._counting = threading.RLock()
        self._pending: Pending[Event] = Pending()
        self.caller = Caller(name)
        self._compiled: dict[tuple[str, str, tuple[tuple[str, int | bool], ...]], Compiled] = {}
        self._grids: dict[str, Range] = {}
        ids = (c_void_p * 1)(found.id)
        self.context = self.caller.make("clCreateContext", None, 1, ids, None, None)
        self.queue = self.caller.make("clCreateCommandQueue", self.context, found.id, 0)
        self.copies = CopyQueue(self)
        self.builder = Builder(found, self.context, self.caller)
        self.recorder = self._recorder()

    @property
    def name(self) -> str:
        """The device's name."""
        return self.device.name

    @property
    def is_lost(self) -> bool:
        """Whether the device no longer takes work. Most drivers still take a flush after a kernel
        was killed, so what other functions found is remembered."""
        if self.caller.is_lost:
            return True
        try:
            self.flush()
        except UnladenError:
            return True
        return False

    def free_bytes(self) -> int:
        """Bytes that can be allocated now. Drivers don't tell, so for a device with memory of its
        own it is what this process hasn't allocated."""
        if self.found.shares_host_memory:
            return free_host_bytes()
        return max(0, self.device.memory_bytes - self.used_bytes)

    def count(self, nbytes: int) -> None:
        """Count bytes that were allocated; fewer than 0 if they were freed."""
        with self._counting:
            self.used_bytes += nbytes

    def new_memory(self, nbytes: int) -> Memory:
        """Zeroed memory; raises :class:`OutOfMemory`."""
        return Memory(self, nbytes)

    def upload(self, data: Bytes) -> Range:
        """A new buffer that holds ``data``; raises :class:`OutOfMemory`."""
        memory = Memory(self, data.nbytes)
        self.write(memory, 0, data)
        return Range(memory, 0, data.nbytes)

    def write(self, memory: Memory, offset: int, data: Bytes) -> None:
        """Upload ``data`` after the work that was started before."""
        if not data.nbytes:
            return
        if data.nbytes > WRITE_BYTES:
            data = np.ascontiguousarray(data)
            self.caller.call("clEnqueueWriteBuffer", self.queue, memory.handle, 1, offset,
                             data.nbytes, address(data), 0, None, None, requested=data.nbytes)
            return
        event = self.event(data.copy())
        self._pending.drop_done()
        with self._pending.starting(event):
            self.caller.call(
                "clEnqueueWriteBuffer", self.queue, memory.handle, 0, offset, data.nbytes,
                address(event.kept), 0, None, ctypes.byref(event.handle), requested=data.nbytes)

    def read(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], Bytes]:
        """Begin to read, and return a function that waits for the bytes."""
        event = self.event(np.empty(nbytes, np.uint8))
        self._pending.drop_done()
        with self._pending.starting(event):
            self.caller.call(
                "clEnqueueReadBuffer", self.queue, memory.handle, 0, offset, nbytes,
                address(event.kept), 0, None, ctypes.byref(event.handle), requested=nbytes)
        self.flush()
        return event.bytes

    def copy(self, dst: Memory, dst_offset: int, src: Memory, src_offset: int, nbytes: int) -> None:
        """Copy between buffers, or within one."""
        if dst is src and abs(dst_offset - src_offset) < nbytes:
            between = Memory(self, nbytes)
            self.copy(between, 0, src, src_offset, nbytes)
            self.copy(dst, dst_offset, between, 0, nbytes)
            self.wait()  # the buffer between is freed
            return
        self.caller.call("clEnqueueCopyBuffer", self.queue, src.handle, dst.handle, src_offset,
                         dst_offset, nbytes, 0, None, None, requested=nbytes)

    def event(self, kept: Bytes | None = None) -> Event:
        """A new event that keeps bytes of the host."""
        return Event(self.caller, kept)

    def mark(self) -> Event:
        """What has been started so far, as an event."""
        event = self.event()
        self.caller.call("clEnqueueMarkerWithWaitList", self.queue, 0, None,
                         ctypes.byref(event.handle))
        self.flush()
        return event

    def flush(self) -> None:
        """Make the device begin with what it was given."""
        self.caller.call("clFlush", self.queue)

    def wait(self) -> None:
        """Wait until all submitted work is done."""
        self.caller.call("clFinish", self.queue)
        self._pending.drop_done()
        self.copies.wait()

    def compiled(self, kernel: str, quant: str, constants: Constants) -> Compiled:
        """The kernel for weights in ``quant`` with these constants, compiled on first use. Raises
        :class:`UnladenError` with the compiler's message."""
        key = (kernel, quant, tuple(sorted(constants.items())))
        found = self._compiled.get(key)
        if found is None:
            source = c_texts.assemble(kernel, quant, constants, PORT)
            program = self.builder.build(source.text, self._options(),
                                         f"{self.name}: kernel {kernel} {quant}".rstrip())
            made = Compiled(source, program)
            self._check_size(program, f"{kernel} {quant}".rstrip(), int(constants["WG"]))
            found = self._compiled.setdefault(key, made)
            if found is not made:  # another thread was first
                self.caller.call("clReleaseProgram", program)
        return found

    def _check_size(self, program: c_void_p, kernel: str, n_threads: int) -> None:
        """Raise :class:`UnsupportedOp` where registers or local memory don't suffice for a
        workgroup."""
        most = most_threads(program, self.found, self.caller)
        if most < n_threads:
            self.caller.call("clReleaseProgram", program)
            raise UnsupportedOp(
                f"{self.name}: kernel {kernel} runs with {most} threads at most, and needs "
                f"{n_threads}", node=kernel, device=self.name, hint="another backend may have it")

    def _options(self) -> str:
        return options_of(self.found, self.features)

    def _recorder(self) -> Recorder | None:
        """What records decode steps; None where the device doesn't."""
        if recording.FEATURE not in self.features:
            return None
        try:
            # A trial that fails says nothing about the device.
            found = Recorder(Caller(self.name), self.found.platform_id, self.queue)
            program = self.builder.build(recording.TRIAL, self._options(), f"{self.name}: trial")
            kernel = found.caller.make("clCreateKernel", program, ENTRY)
            try:
                recording.try_out(found, self.context, kernel)
            finally:
                found.caller.call("clReleaseKernel", kernel)
                found.caller.call("clReleaseProgram", program)
        except UnladenError as error:
            log.warning("%s doesn't record steps, so each costs the host more time: %s (hint: a "
                        "driver update may help; %s without %s stops this warning)", self.name,
                        error, features.VARIABLE, recording.FEATURE)
            return None
        found.caller = self.caller
        return found

    def kernel(self, compiled: Compiled, ranges: Mapping[str, Range | bytes]) -> c_void_p:
        """A kernel with all of its arguments, which stay as they are."""
        kernel = self.caller.make("clCreateKernel", compiled.program, ENTRY)
        if compiled.source.grid:
            ranges = {**ranges, "grid": self._grid(compiled.source.grid)}
        at = 0
        for binding in compiled.source.bindings:
            what = ranges[binding.name]
            if isinstance(what, bytes):
                values: list[tuple[int, Any]] = [(len(what), what)]
            else:
                values = [(ctypes.sizeof(c_void_p), ctypes.byref(what.buffer.handle)),
                          (8, ctypes.byref(c_uint64(what.offset)))]
            for size, value in values:
                self.caller.call("clSetKernelArg", kernel, at, size, value)
                at += 1
        return kernel

    def _grid(self, name: str) -> Range:
        if name not in self._grids:
            # The first stays: kernels of another thread may have it already, and don't keep it.
            self._grids.setdefault(name, self.upload(codebook_bytes(name)))
        return self._grids[name]

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if library is None or not hasattr(self, "queue"):
            return
        library.clFinish(self.queue)  # it uses memory of the host until then
        for compiled in self._compiled.values():
            library.clReleaseProgram(compiled.program)
        library.clReleaseCommandQueue(self.queue)
        library.clReleaseContext(self.context)
