"""Reads a GPU's buffer while the device goes on.

wgpu-py's own reading waits for everything that was submitted, also after the copy. So this calls
the C library, and waits for the copy alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.target import Bytes
from unladen.backends.wgpu.adapters import load, native
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu
from unladen.backends.wgpu.memory import WgpuBuffer
from unladen.errors import DeviceLost

MAP_READ = 1
MAPPED = 1
WHEN_POLLED = 2
"""WGPUMapMode_Read, WGPUMapAsyncStatus_Success and WGPUCallbackMode_AllowProcessEvents of webgpu.h.
"""


@dataclass(slots=True)
class _Mapping:
    """The one callback of the process. ``told``: by the number of a mapping that is waited for, the
    status that C reported, 0 until then. C may call the callback as long as there is a device, so
    it is never freed. ``interrupts``: raised inside the callback, where C can't pass them on."""

    callback: Any = None
    told: dict[int, int] = field(default_factory=dict)
    interrupts: list[BaseException] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


@functools.cache
def _mapping() -> _Mapping:
    _, ffi = native()
    mapping = _Mapping()

    def mapped(status: Any, message: Any, number: Any, _unused: Any) -> None:
        key = int(ffi.cast("intptr_t", number))
        if key in mapping.told:
            mapping.told[key] = int(status)

    def failed(_kind: Any, error: BaseException, _trace: Any) -> None:
        mapping.interrupts.append(error)
    kind = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"
    mapping.callback = ffi.callback(kind, mapped, onerror=failed)
    return mapping


@dataclass(slots=True)
class _Fetched:
    gpu: Gpu
    staging: Any
    nbytes: int
    submission: int
    number: int

    def __call__(self) -> Bytes:
        """Wait and copy. An interrupt may come at any point, and then this can be called again, so
        the buffer stays mapped as long as it exists."""
        libf, ffi = native()
        mapping = _mapping()
        self.gpu.wait_for(self.submission)
        if mapping.interrupts:
            raise mapping.interrupts.pop()
        where = ffi.NULL
        # 0: an interrupt stopped the callback before it could store the status.
        if mapping.told[self.number] in (0, MAPPED):
            with typed(self.gpu.name, requested=self.nbytes):
                where = libf.wgpuBufferGetConstMappedRange(self.staging._internal, 0, self.nbytes)
        if where == ffi.NULL:
            raise DeviceLost(f"{self.gpu.name} stopped answering: a result can't be read",
                             hint="load the model again; a driver update may help")
        return np.frombuffer(ffi.buffer(where, self.nbytes), np.uint8).copy()

    def __del__(self) -> None:
        _mapping().told.pop(self.number, None)


def fetch(src: WgpuBuffer, nbytes: int, offset: int) -> Callable[[], Bytes]:
    """See :meth:`~unladen.backends.base.Backend.fetch`; whole words of one part."""
    ((part, at, _, _),) = src.pieces(offset, nbytes)
    assert at % 4 == nbytes % 4 == 0, (offset, nbytes)
    gpu, (libf, ffi), mapping = src.gpu, native(), _mapping()
    usage = load()[0].BufferUsage
    with typed(gpu.name, requested=nbytes):
        staging = gpu.wgpu.create_buffer(size=nbytes, usage=usage.MAP_READ | usage.COPY_DST)
        encoder = gpu.wgpu.create_command_encoder()
        encoder.copy_buffer_to_buffer(part.buffer, part.offset + at, staging, 0, nbytes)
        submission = gpu.submit(encoder.finish())
        fetched = _Fetched(gpu, staging, nbytes, submission, next(mapping.numbers))
        mapping.told[fetched.number] = 0
        info = ffi.new("WGPUBufferMapCallbackInfo *", {
            "mode": WHEN_POLLED, "callback": mapping.callback,
            "userdata1": ffi.cast("void *", fetched.number)})
        libf.wgpuBufferMapAsync(staging._internal, MAP_READ, 0, nbytes, info[0])
    return fetched
