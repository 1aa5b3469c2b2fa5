"""Command buffers (``cl_khr_command_buffer``): kernels that are recorded once and started together.

Recording a decode step takes its starts out of the host's way: the driver checks kernels and
arguments when it records them, and a step is one call. The extension is provisional in many
drivers, so a device uses it only after a trial on that device gave the right numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Final

import numpy as np

from unladen.backends.opencl import driver
from unladen.backends.opencl.driver import Caller
from unladen.errors import UnladenError

FEATURE: Final = "command_buffers"
"""The name of this ability among the device's features."""
EXTENSION: Final = "cl_khr_command_buffer"
TRIAL: Final = "__kernel void kernel_main(__global uint *a) { *a = *a * 3u + 1u; }"
"""The kernel of the trial. Its result tells how often it ran, and that no run was beside
another."""
N_RECORDED, N_STARTED = 3, 2
"""How often the trial records its kernel, and how often it starts the recording."""

# Numbers of cl_ext.h.
_FLAGS, _SIMULTANEOUS_USE = 0x1293, 1
_CAPABILITIES, _CAN_USE_SIMULTANEOUSLY = 0x12A9, 4

Started = tuple[c_void_p, Any, Any]
"""A kernel, its threads in x, y and z, and those of a workgroup."""

_POINTERS, _SIZES = POINTER(c_void_p), POINTER(c_size_t)
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "clCreateCommandBufferKHR": (c_void_p, c_uint32, _POINTERS, POINTER(c_uint64),
                                 POINTER(c_int32)),
    "clCommandNDRangeKernelKHR": (c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_uint32, _SIZES,
                                  _SIZES, _SIZES, c_uint32, c_void_p, c_void_p, c_void_p),
    "clFinalizeCommandBufferKHR": (c_int32, c_void_p),
    "clEnqueueCommandBufferKHR": (c_int32, c_uint32, _POINTERS, c_void_p, c_uint32, _POINTERS,
                                  _POINTERS),
    "clReleaseCommandBufferKHR": (c_int32, c_void_p)}
"""The extension's functions: what each returns, and the types of its arguments."""


def can_record(device: c_void_p) -> bool:
    """Whether ``device`` may start a recording again before it is done, as steps that run ahead
    do."""
    return bool(driver.number_of(device, _CAPABILITIES) & _CAN_USE_SIMULTANEOUSLY)


class Recorder:
    """Records kernels for one queue of a device of ``platform``. Raises :class:`UnladenError` where
    the driver lists the extension without its functions."""

    def __init__(self, caller: Caller, platform: c_void_p, queue: c_void_p) -> None:
        self.caller, self.queue = caller, queue
        library = driver.library()
        assert library is not None
        library.clGetExtensionFunctionAddressForPlatform.argtypes = c_void_p, c_char_p
        library.clGetExtensionFunctionAddressForPlatform.restype = c_void_p
        found = {}
        for name, types in _FUNCTIONS.items():
            at = library.clGetExtensionFunctionAddressForPlatform(platform, name.encode())
            if not at:
                raise UnladenError(f"{caller.device}: its driver lists {EXTENSION} and lacks "
                                   f"{name}")
            found[name] = ctypes.CFUNCTYPE(*types)(at)
        self._call = found

    def record(self, kernels: Iterable[Started]) -> Recording:
        """A recording of ``kernels``, each of which begins when the one before is done. They must
        live as long as the recording."""
        number, queues = c_int32(0), (c_void_p * 1)(self.queue)
        flags = (c_uint64 * 3)(_FLAGS, _SIMULTANEOUS_USE, 0)
        made = self._call["clCreateCommandBufferKHR"](1, queues, flags, ctypes.byref(number))
        self._check("clCreateCommandBufferKHR", number.value)
        recording = Recording(self, c_void_p(made))
        for kernel, threads, local in kernels:
            self._check("clCommandNDRangeKernelKHR", self._call["clCommandNDRangeKernelKHR"](
                recording.handle, None, None, kernel, 3, None, threads, local, 0, None, None, None))
        self._check("clFinalizeCommandBufferKHR",
                    self._call["clFinalizeCommandBufferKHR"](recording.handle))
        return recording

    def start(self, recording: Recording) -> None:
        """Start the recorded kernels after what was started before."""
        self._check("clEnqueueCommandBufferKHR", self._call["clEnqueueCommandBufferKHR"](
            0, None, recording.handle, 0, None, None))

    def release(self, handle: c_void_p) -> None:
        """Free a recording, once it is done."""
        self._call["clReleaseCommandBufferKHR"](handle)

    def _check(self, name: str, number: int) -> None:
        if number != 0:
            raise self.caller.error(name, number)


class Recording:
    """Recorded kernels, freed with the last reference."""

    def __init__(self, recorder: Recorder, handle: c_void_p) -> None:
        self.recorder, self.handle = recorder, handle

    def start(self) -> None:
        """Start the kernels after what was started before."""
        self.recorder.start(self)

    @driver.PROCESS.frees
    def __del__(self) -> None:
        self.recorder.release(self.handle)


def try_out(recorder: Recorder, context: c_void_p, kernel: c_void_p) -> None:
    """Record and start :data:`TRIAL`, of which ``kernel`` is made. Raises :class:`UnladenError`
    where the driver fails or computes something else."""
    caller, number, queue = recorder.caller, np.array([7], np.uint32), recorder.queue
    memory = caller.make("clCreateBuffer", context, driver.MEM_READ_WRITE, 16, None)
    try:
        caller.call("clSetKernelArg", kernel, 0, 8, ctypes.byref(memory))
        caller.call("clEnqueueWriteBuffer", queue, memory, 1, 0, 4,
                    driver.address(number.view(np.uint8)), 0, None, None)
        one = (c_size_t * 3)(1, 1, 1)
        recording = recorder.record([(kernel, one, one)] * N_RECORDED)
        for _ in range(N_STARTED):
            recording.start()
        found = np.empty(1, np.uint32)
        caller.call("clEnqueueReadBuffer", queue, memory, 1, 0, 4,
                    driver.address(found.view(np.uint8)), 0, None, None)
    finally:
        caller.call("clReleaseMemObject", memory)
    for _ in range(N_RECORDED * N_STARTED):
        number = number * np.uint32(3) + np.uint32(1)
    if not np.array_equal(found, number):
        raise UnladenError(f"{caller.device}: a recording of {N_RECORDED} kernels started "
                           f"{N_STARTED} times gives {found[0]} instead of {number[0]}")
