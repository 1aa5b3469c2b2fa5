"""The system's OpenCL library through ctypes: what this backend calls, and its errors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unladen.backends._gpu import forks
from unladen.backends._gpu.loading import load_library
from unladen.backends._gpu.memory import HINT
from unladen.errors import DeviceLost, OutOfMemory, UnladenError

LIBRARIES = ("libOpenCL.so.1", "OpenCL.dll", "libOpenCL.so",
             "/System/Library/Frameworks/OpenCL.framework/OpenCL")
"""The loader of OpenCL drivers under the names that systems give it."""
INSTALL = ("on Debian and Ubuntu apt install ocl-icd-libopencl1, with intel-opencl-icd for Intel's "
           "GPUs, mesa-opencl-icd for AMD's, pocl-opencl-icd for the processor; NVIDIA's driver "
           "brings its own")
"""The hint where OpenCL or a driver is missing."""

# Numbers of cl.h.
DEVICE_TYPE_CPU, DEVICE_TYPE_GPU, DEVICE_TYPE_ACCELERATOR = 2, 4, 8
DEVICE_TYPE_ALL = 0xFFFFFFFF
PLATFORM_NAME = 0x0902
DEVICE_TYPE, DEVICE_MAX_WORK_GROUP_SIZE = 0x1000, 0x1004
DEVICE_MAX_MEM_ALLOC_SIZE, DEVICE_GLOBAL_MEM_SIZE, DEVICE_LOCAL_MEM_SIZE = 0x1010, 0x101F, 0x1023
DEVICE_SINGLE_FP_CONFIG, CORRECTLY_ROUNDED = 0x101B, 1 << 7
DEVICE_ENDIAN_LITTLE, DEVICE_AVAILABLE, DEVICE_COMPILER_AVAILABLE = 0x1026, 0x1027, 0x1028
DEVICE_NAME, DRIVER_VERSION, DEVICE_VERSION = 0x102B, 0x102D, 0x102F
DEVICE_EXTENSIONS, DEVICE_OPENCL_C_VERSION = 0x1030, 0x103D
DEVICE_HOST_UNIFIED_MEMORY, DEVICE_MAX_NUM_SUB_GROUPS = 0x1035, 0x105C
DEVICE_OPENCL_C_ALL_VERSIONS, DEVICE_OPENCL_C_FEATURES = 0x1066, 0x106F
MEM_READ_WRITE = 1

_POINTERS = POINTER(c_void_p)
_SIZES = POINTER(c_size_t)
_WAIT: tuple[Any, ...] = (c_uint32, _POINTERS, _POINTERS)  # events to wait for, and the new event
FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "clGetPlatformIDs": (c_uint32, _POINTERS, POINTER(c_uint32)),
    "clGetPlatformInfo": (c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clGetDeviceIDs": (c_void_p, c_uint64, c_uint32, _POINTERS, POINTER(c_uint32)),
    "clGetDeviceInfo": (c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clGetKernelWorkGroupInfo": (c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clBuildProgram": (c_void_p, c_uint32, _POINTERS, c_char_p, c_void_p, c_void_p),
    "clGetProgramBuildInfo": (c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clGetProgramInfo": (c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clSetKernelArg": (c_void_p, c_uint32, c_size_t, c_void_p),
    "clEnqueueWriteBuffer": (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_WAIT),
    "clEnqueueReadBuffer": (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_WAIT),
    "clEnqueueCopyBuffer": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, *_WAIT),
    "clEnqueueFillBuffer": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, *_WAIT),
    "clEnqueueNDRangeKernel": (c_void_p, c_void_p, c_uint32, _SIZES, _SIZES, _SIZES, *_WAIT),
    "clEnqueueMarkerWithWaitList": (c_void_p, *_WAIT),
    "clWaitForEvents": (c_uint32, _POINTERS),
    "clGetEventInfo": (c_void_p, c_uint32, c_size_t, c_void_p, _SIZES),
    "clFlush": (c_void_p,), "clFinish": (c_void_p,),
    "clReleaseMemObject": (c_void_p,), "clReleaseEvent": (c_void_p,),
    "clReleaseKernel": (c_void_p,), "clReleaseProgram": (c_void_p,),
    "clReleaseCommandQueue": (c_void_p,), "clReleaseContext": (c_void_p,)})
"""Functions that return an error's number, and the types of their arguments."""
MAKERS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "clCreateContext": (c_void_p, c_uint32, _POINTERS, c_void_p, c_void_p, POINTER(c_int32)),
    "clCreateCommandQueue": (c_void_p, c_void_p, c_uint64, POINTER(c_int32)),
    "clCreateBuffer": (c_void_p, c_uint64, c_size_t, c_void_p, POINTER(c_int32)),
    "clCreateProgramWithSource": (c_void_p, c_uint32, POINTER(c_char_p), _SIZES, POINTER(c_int32)),
    "clCreateProgramWithBinary": (c_void_p, c_uint32, _POINTERS, _SIZES, _POINTERS,
                                  POINTER(c_int32), POINTER(c_int32)),
    "clCreateKernel": (c_void_p, c_char_p, POINTER(c_int32))})
"""Functions that return what they make, and an error's number through their last argument."""
ERRORS: Mapping[int, str] = MappingProxyType({
    -1: "device not found", -2: "device not available", -3: "compiler not available",
    -4: "no memory for a buffer", -5: "out of resources", -6: "out of the host's memory",
    -11: "the compiler failed", -14: "a command before failed", -34: "invalid context",
    -36: "invalid command queue", -38: "invalid buffer", -48: "invalid kernel",
    -51: "invalid size of an argument", -52: "invalid arguments of a kernel",
    -54: "invalid workgroup size", -61: "invalid size of a buffer", -1001: "no driver",
    -9999: "a kernel used memory that isn't its own"})
"""What some of OpenCL's error numbers mean."""
NO_MEMORY, NO_RESOURCES, NO_HOST_MEMORY = -4, -5, -6
ALLOCATING = frozenset({"clCreateBuffer", "clEnqueueFillBuffer"})
"""Functions for which missing resources are missing memory: a new buffer gets it when it is made or
first filled."""
LOST = frozenset({-2, -5, -14, -34, -36, -9999})
"""Errors after which a device takes no more work. Drivers report a kernel that was killed as
missing resources, from any later function."""


PROCESS: Final = forks.Process("OpenCL")
"""The process that asked for the devices first."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The loader of OpenCL drivers; None where there is none."""
    found = load_library(LIBRARIES, *FUNCTIONS, *MAKERS)
    if found is not None:
        for name, types in FUNCTIONS.items():
            getattr(found, name).argtypes = types
        for name, types in MAKERS.items():
            getattr(found, name).argtypes, getattr(found, name).restype = types, c_void_p
    return found


class Caller:
    """Calls functions for ``device``, and remembers whether one of them found that it is lost."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.is_lost = False

    def call(self, name: str, *arguments: Any, requested: int = 0, free: int = 0) -> None:
        """Call a function of :data:`FUNCTIONS`. Raises :class:`OutOfMemory`, :class:`DeviceLost` or
        :class:`UnladenError`."""
        number = getattr(library(), name)(*arguments)
        if number != 0:
            raise self.error(name, number, requested=requested, free=free)

    def make(self, name: str, *arguments: Any, requested: int = 0, free: int = 0) -> c_void_p:
        """What a function of :data:`MAKERS` makes. Raises like :meth:`call`."""
        number = c_int32(0)
        made = getattr(library(), name)(*arguments, ctypes.byref(number))
        if number.value != 0 or not made:
            raise self.error(name, number.value, requested=requested, free=free)
        return c_void_p(made)

    def error(self, name: str, number: int, *, requested: int = 0, free: int = 0
              ) -> UnladenError | OutOfMemory:
        """The exception for error ``number`` of function ``name``, as :func:`error`."""
        found = error(self.device, name, number, requested=requested, free=free)
        self.is_lost = self.is_lost or isinstance(found, DeviceLost)
        return found


def error(device: str, name: str, number: int, *, requested: int = 0, free: int = 0
          ) -> UnladenError | OutOfMemory:
    """The exception for error ``number`` of function ``name``."""
    if number in (NO_MEMORY, NO_HOST_MEMORY) or (number == NO_RESOURCES and name in ALLOCATING):
        return OutOfMemory(device=device, requested=requested, free=free, hint=HINT)
    text = f"{device}: {name} failed: {ERRORS.get(number, 'error')} ({number})"
    if number in LOST:
        return DeviceLost(text, hint="load the model again; a driver update may help")
    return UnladenError(text)


def info(function: str, of: c_void_p, what: int) -> bytes:
    """What ``function`` (clGetPlatformInfo, clGetDeviceInfo) answers; empty where it doesn't know
    the question, as older drivers."""
    ask, size = getattr(library(), function), c_size_t(0)
    if ask(of, what, 0, None, ctypes.byref(size)) != 0:
        return b""
    found = ctypes.create_string_buffer(size.value)
    return found.raw if ask(of, what, size.value, found, None) == 0 else b""


def text_of(function: str, of: c_void_p, what: int) -> str:
    """The answer as text."""
    return info(function, of, what).rstrip(b"\0").decode("utf-8", "replace").strip()


def number_of(device: c_void_p, what: int) -> int:
    """A device's answer as a number, 0 where it doesn't know the question."""
    return int.from_bytes(info("clGetDeviceInfo", device, what), "little")


def named_versions(device: c_void_p, what: int) -> Sequence[tuple[str, tuple[int, int]]]:
    """A device's answer as names with versions (major, minor); nothing where it doesn't know the
    question. cl_name_version of cl.h is a number of 10, 10 and 12 bits and 64 bytes of text."""
    raw = info("clGetDeviceInfo", device, what)
    found = []
    for at in range(0, len(raw), 68):
        number, name = int.from_bytes(raw[at:at + 4], "little"), raw[at + 4:at + 68]
        found.append((name.partition(b"\0")[0].decode("ascii", "replace"),
                      (number >> 22, number >> 12 & 0x3FF)))
    return found


def listed(function: str, *arguments: Any) -> Sequence[c_void_p]:
    """What clGetPlatformIDs or clGetDeviceIDs lists; nothing where it fails, since a loader without
    drivers and a platform without devices do so."""
    ask, n = getattr(library(), function), c_uint32(0)
    if ask(*arguments, 0, None, ctypes.byref(n)) != 0 or n.value == 0:
        return []
    found = (c_void_p * n.value)()
    if ask(*arguments, n.value, found, None) != 0:
        return []
    return [c_void_p(each) for each in found]


def address(data: npt.NDArray[np.uint8]) -> c_void_p:
    """Where the bytes of ``data`` are."""
    return c_void_p(data.ctypes.data)
