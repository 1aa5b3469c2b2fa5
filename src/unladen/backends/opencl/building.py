"""Programs of a device: compiled from their texts, or taken from the binaries kept on disk."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_size_t, c_ubyte, c_void_p

from unladen.backends._gpu.binaries import Binaries, folder_of_binaries
from unladen.backends._gpu.c_texts import not_compiled
from unladen.backends.opencl import driver
from unladen.backends.opencl.driver import Caller
from unladen.backends.opencl.platforms import Found
from unladen.errors import DeviceLost, OutOfMemory, UnladenError

# Numbers of cl.h.
_BINARY_SIZES, _BINARIES, _BUILD_LOG, _WORK_GROUP_SIZE = 0x1165, 0x1166, 0x1183, 0x11B0

ENTRY = b"kernel_main"
"""The name of the function that a kernel's text defines."""


class Builder:
    """Builds programs for the device ``found`` in ``context``, by calls of ``caller``."""

    def __init__(self, found: Found, context: c_void_p, caller: Caller) -> None:
        self.found, self.context, self.caller = found, context, caller
        self.binaries = Binaries(folder_of_binaries())

    def build(self, text: str, options: str, what: str) -> c_void_p:
        """The program of ``text``. ``what`` names it in errors. Raises :class:`UnladenError` with
        the compiler's message."""
        if self.binaries.folder is None:
            return self._from_text(text, options, what)
        of = ("opencl", text, options, self.found.name, self.found.platform,
              self.found.driver_version)
        built: list[c_void_p] = []

        def compiled() -> bytes:
            built.append(self._from_text(text, options, what))
            return binary_of(built[0], self.caller)

        binary = self.binaries.get(of, compiled)
        if not built and binary:
            try:
                built.append(self._from_binary(binary, options))
            except UnladenError:  # a driver may refuse what another build of it made
                self.binaries.forget(of)
                self.binaries.get(of, compiled)
        return built[0] if built else self._from_text(text, options, what)

    def _from_text(self, text: str, options: str, what: str) -> c_void_p:
        encoded = text.encode()
        strings, sizes = (c_char_p * 1)(encoded), (c_size_t * 1)(len(encoded))
        program = self.caller.make("clCreateProgramWithSource", self.context, 1, strings, sizes)
        try:
            self._build(program, options)
        except (DeviceLost, OutOfMemory):
            self.caller.call("clReleaseProgram", program)
            raise
        except UnladenError as error:
            said = self._log(program)
            self.caller.call("clReleaseProgram", program)
            raise not_compiled(what, said, "a driver update may help") from error
        return program

    def _from_binary(self, binary: bytes, options: str) -> c_void_p:
        ids, sizes = (c_void_p * 1)(self.found.id), (c_size_t * 1)(len(binary))
        held = (c_ubyte * len(binary)).from_buffer_copy(binary)
        pointers = (c_void_p * 1)(ctypes.addressof(held))
        program = self.caller.make("clCreateProgramWithBinary", self.context, 1, ids, sizes,
                                   pointers, ctypes.byref(c_int32(0)))
        try:
            self._build(program, options)
        except UnladenError:
            self.caller.call("clReleaseProgram", program)
            raise
        return program

    def _build(self, program: c_void_p, options: str) -> None:
        ids = (c_void_p * 1)(self.found.id)
        self.caller.call("clBuildProgram", program, 1, ids, options.encode(), None, None)

    def _log(self, program: c_void_p) -> str:
        log, size = ctypes.create_string_buffer(1 << 16), c_size_t(0)
        self.caller.call("clGetProgramBuildInfo", program, self.found.id, _BUILD_LOG, len(log),
                         log, ctypes.byref(size))
        return log.value.decode("utf-8", "replace").strip()


def binary_of(program: c_void_p, caller: Caller) -> bytes:
    """What the driver compiled for its one device; empty where it gives nothing away."""
    library = driver.library()
    assert library is not None
    sizes = (c_size_t * 1)(0)
    if library.clGetProgramInfo(program, _BINARY_SIZES, ctypes.sizeof(sizes), sizes, None) != 0:
        return b""
    held = (c_ubyte * max(1, sizes[0]))()
    pointers = (c_void_p * 1)(ctypes.addressof(held))
    caller.call("clGetProgramInfo", program, _BINARIES, ctypes.sizeof(pointers), pointers, None)
    return bytes(held[:sizes[0]])


def most_threads(program: c_void_p, found: Found, caller: Caller) -> int:
    """The most threads that a workgroup of the program's kernel can have on the device."""
    kernel = caller.make("clCreateKernel", program, ENTRY)
    size = c_size_t(0)
    caller.call("clGetKernelWorkGroupInfo", kernel, found.id, _WORK_GROUP_SIZE,
                ctypes.sizeof(size), ctypes.byref(size), None)
    caller.call("clReleaseKernel", kernel)
    return size.value


def options_of(found: Found, features: frozenset[str]) -> str:
    """The compiler's options for kernels that use ``features`` on the device ``found``. Without an
    instruction for packed products, ``int_dot`` is put together from others. Compilers of 3.0 may
    refuse 2.0. Quotients and roots are rounded correctly where the device can do that: the ops'
    bounds count on less error than OpenCL allows otherwise."""
    dot = "int_dot" in found.available and "int_dot" in features
    version = "1.2"
    if dot or "subgroups" in features:
        version = "3.0" if found.version >= (3, 0) else "2.0"
    more = " -DHAS_INT_DOT" if dot else ""
    if found.divides_exactly:
        more += " -cl-fp32-correctly-rounded-divide-sqrt"
    return f"-w -cl-std=CL{version}{more}"
