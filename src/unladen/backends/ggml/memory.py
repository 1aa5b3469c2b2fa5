"""Memory of ggml's devices."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Buffer, Device
from unladen.backends.ggml.library import InitParams, Library, frees_with
from unladen.errors import OutOfMemory

Bytes = npt.NDArray[np.uint8]
I8 = 24
"""ggml's number of the type int8."""
SLACK = 4096
"""Bytes that a buffer has beyond its size. A device may ask for more room after a tensor than the
tensor's bytes."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class GgmlBuffer:
    """A buffer of a device of ggml. ``handle``: ggml's buffer, ``base``: the address of its first
    byte on the device, ``whole``: a tensor of all its bytes."""

    device: Device
    nbytes: int
    handle: int
    base: int
    whole: int
    context: Context = field(repr=False)


class Context:
    """A context of ggml: room for ``n`` tensors and graphs of together ``graph_bytes``. ggml aborts
    the process if a context is full, so :meth:`make` counts."""

    def __init__(self, library: Library, n: int, graph_bytes: int = 0) -> None:
        self._left = n
        size = n * (library["tensor_overhead"]() + 64) + graph_bytes
        self._library = library
        self.handle: int = library["init"](InitParams(size, None, True))
        if not self.handle:
            raise MemoryError("ggml has no memory for a graph")
        frees_with(self, library["free"], self.handle)

    def make(self, name: str, *arguments: Any) -> int:
        """The new tensor of ggml's function ``name``."""
        self._left -= 1
        assert self._left >= 0, "the context is full"
        tensor: int = self._library[name](self.handle, *arguments)
        return tensor


def alloc(library: Library, device: Device, kind: int, nbytes: int, free: int) -> GgmlBuffer:
    """A zeroed buffer of the buffer type ``kind``. Raises :class:`OutOfMemory`."""
    most = library["backend_buft_get_max_size"](kind)
    handle = None
    if nbytes + SLACK <= min(most, free):
        handle = library["backend_buft_alloc_buffer"](kind, nbytes + SLACK)
    if not handle:
        raise OutOfMemory(device=device.name, requested=nbytes, free=min(most, free), hint=(
            "use a smaller context_size or batch_size, or put fewer layers on this device"))
    library["backend_buffer_clear"](handle, 0)
    context = Context(library, 1)
    whole = context.make("new_tensor_1d", I8, max(1, nbytes))
    base = library["backend_buffer_get_base"](handle)
    library["backend_tensor_alloc"](handle, whole, base)
    buffer = GgmlBuffer(device, nbytes, handle, base, whole, context)
    frees_with(buffer, library["backend_buffer_free"], handle)
    return buffer


def of_ggml(buffer: Buffer) -> GgmlBuffer:
    """``buffer``, which is one of this backend."""
    assert isinstance(buffer, GgmlBuffer), buffer
    return buffer


def write(library: Library, buffer: GgmlBuffer, data: Bytes, offset: int) -> None:
    """Copy ``data`` to the device."""
    assert offset + data.nbytes <= buffer.nbytes
    if data.nbytes:
        data = np.ascontiguousarray(data)
        library["backend_tensor_set"](buffer.whole, data.ctypes.data, offset, data.nbytes)


def read(library: Library, buffer: GgmlBuffer, nbytes: int, offset: int) -> Bytes:
    """Copy ``nbytes`` bytes from the device."""
    assert offset + nbytes <= buffer.nbytes
    data = np.empty(nbytes, np.uint8)
    if nbytes:
        library["backend_tensor_get"](buffer.whole, data.ctypes.data, offset, nbytes)
    return data


def address(data: npt.NDArray[Any]) -> ctypes.c_void_p:
    """The address of a contiguous array."""
    assert data.flags.c_contiguous
    return ctypes.c_void_p(data.ctypes.data)
