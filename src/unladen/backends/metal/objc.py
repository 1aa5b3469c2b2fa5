"""Objective-C through ctypes: the messages that this backend sends, and what owns objects.

Each message is sent by a function whose type is that of the method, since arguments of functions
with ``...`` are passed otherwise on 64-bit Arm.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_bool, c_char_p, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from unladen.backends._gpu import forks
from unladen.backends._gpu.loading import load_library

OBJC = ("/usr/lib/libobjc.A.dylib",)
"""The library of the language's runtime. Systems have it in their cache, not as a file."""
METAL = ("/System/Library/Frameworks/Metal.framework/Metal",)
"""The library of the framework Metal."""
FUNCTIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "objc_getClass": (c_void_p, c_char_p), "sel_registerName": (c_void_p, c_char_p),
    "objc_retain": (c_void_p, c_void_p), "objc_release": (None, c_void_p),
    "objc_autoreleasePoolPush": (c_void_p,), "objc_autoreleasePoolPop": (None, c_void_p)})
"""Functions of :data:`OBJC`: what they return, and the types of their arguments."""


class Size(ctypes.Structure):
    """MTLSize of MTLTypes.h; passed by value."""

    _fields_ = [("width", c_uint64), ("height", c_uint64), ("depth", c_uint64)]


MESSAGES: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    # Foundation
    "new": (c_void_p,), "count": (c_uint64,), "objectAtIndex:": (c_void_p, c_uint64),
    "stringWithUTF8String:": (c_void_p, c_char_p), "UTF8String": (c_char_p,),
    "localizedDescription": (c_void_p,), "code": (c_int64,),
    # MTLDevice
    "name": (c_void_p,), "hasUnifiedMemory": (c_bool,), "supportsFamily:": (c_bool, c_int64),
    "recommendedMaxWorkingSetSize": (c_uint64,), "currentAllocatedSize": (c_uint64,),
    "maxBufferLength": (c_uint64,), "maxThreadgroupMemoryLength": (c_uint64,),
    "newCommandQueue": (c_void_p,), "newBufferWithLength:options:": (c_void_p, c_uint64, c_uint64),
    "newBufferWithBytesNoCopy:length:options:deallocator:": (
        c_void_p, c_void_p, c_uint64, c_uint64, c_void_p),
    "newLibraryWithSource:options:error:": (
        c_void_p, c_void_p, c_void_p, ctypes.POINTER(c_void_p)),
    "newComputePipelineStateWithFunction:error:": (
        c_void_p, c_void_p, ctypes.POINTER(c_void_p)),
    # MTLCompileOptions, MTLLibrary, MTLComputePipelineState, MTLBuffer
    "setFastMathEnabled:": (None, c_bool), "setLanguageVersion:": (None, c_uint64),
    "newFunctionWithName:": (c_void_p, c_void_p), "maxTotalThreadsPerThreadgroup": (c_uint64,),
    "contents": (c_void_p,),
    # MTLCommandQueue, MTLCommandBuffer
    "commandBuffer": (c_void_p,), "computeCommandEncoderWithDispatchType:": (c_void_p, c_uint64),
    "blitCommandEncoder": (c_void_p,), "commit": (None,), "waitUntilCompleted": (None,),
    "status": (c_uint64,), "error": (c_void_p,),
    # MTLComputeCommandEncoder, MTLBlitCommandEncoder
    "setComputePipelineState:": (None, c_void_p),
    "setBuffer:offset:atIndex:": (None, c_void_p, c_uint64, c_uint64),
    "setBytes:length:atIndex:": (None, c_char_p, c_uint64, c_uint64),
    "memoryBarrierWithScope:": (None, c_uint64),
    "dispatchThreadgroups:threadsPerThreadgroup:": (None, Size, Size), "endEncoding": (None,),
    "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": (
        None, c_void_p, c_uint64, c_void_p, c_uint64, c_uint64)})
"""The messages by name: what they return, and the types of their arguments."""


@dataclass(frozen=True, slots=True)
class Libraries:
    """The two libraries."""

    objc: ctypes.CDLL
    metal: ctypes.CDLL


PROCESS: Final = forks.Process("Metal")
"""The process that asked for the devices first."""


@functools.cache
def libraries() -> Libraries | None:
    """The libraries; None where there is no Metal."""
    objc = load_library(OBJC, "objc_msgSend", *FUNCTIONS)
    metal = load_library(METAL, "MTLCopyAllDevices")
    if objc is None or metal is None:
        return None
    for name, (result, *types) in FUNCTIONS.items():
        getattr(objc, name).restype, getattr(objc, name).argtypes = result, types
    metal.MTLCopyAllDevices.restype, metal.MTLCopyAllDevices.argtypes = c_void_p, []
    return Libraries(objc, metal)


def _objc() -> ctypes.CDLL:
    there = libraries()
    assert there is not None, "a device of Metal is open"
    return there.objc


@functools.cache
def _message(name: str) -> tuple[Any, int]:
    """The function that sends message ``name``, and the message's selector."""
    objc, (result, *types) = _objc(), MESSAGES[name]
    address = ctypes.cast(objc.objc_msgSend, c_void_p).value
    assert address is not None
    return (CFUNCTYPE(result, c_void_p, c_void_p, *types)(address),
            objc.sel_registerName(name.encode()))


def send(to: Any, name: str, *arguments: Any) -> Any:
    """Send message ``name`` of :data:`MESSAGES` to the object at address ``to``."""
    function, selector = _message(name)
    return function(to, selector, *arguments)


class Object:
    """Owns one reference to the object at ``address``, and releases it with the last reference to
    this."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    def send(self, name: str, *arguments: Any) -> Any:
        """Send a message to the object."""
        return send(self.address, name, *arguments)

    @PROCESS.frees
    def __del__(self) -> None:
        there = libraries()
        if there is not None:
            with pool():  # what ends may autorelease something
                there.objc.objc_release(self.address)


def retained(address: int) -> Object:
    """Keeps an object that a pool would release."""
    return Object(_objc().objc_retain(address))


def new(class_name: str) -> Object:
    """A new object of a class."""
    return Object(send(_objc().objc_getClass(class_name.encode()), "new"))


def text(string: int | None) -> str:
    """The text of an NSString; "" for nil."""
    found: bytes = send(string, "UTF8String") if string else b""
    return found.decode("utf-8", "replace")


def string(value: str) -> int:
    """An NSString, which the pool releases."""
    made: int = send(_objc().objc_getClass(b"NSString"), "stringWithUTF8String:", value.encode())
    return made


@contextmanager
def pool() -> Iterator[None]:
    """Objects that methods return without giving them away live until the end of this."""
    objc = _objc()
    made = objc.objc_autoreleasePoolPush()
    try:
        yield
    finally:
        objc.objc_autoreleasePoolPop(made)


def forget() -> None:
    """Look for the libraries anew; for tests."""
    libraries.cache_clear()
    _message.cache_clear()
