"""Reads a GPU's buffer while the device works on.

wgpu-py's own reading waits for all work that was submitted, also for work after the copy. So this
module calls the C library and waits only for the copy.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.target import Bytes
from unladen.backends.wgpu.adapters import PROCESS, native
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu
from unladen.backends.wgpu.mapping import end_mapping
from unladen.backends.wgpu.memory import WgpuBuffer, read
from unladen.errors import DeviceLost

MAP_READ = 1
MAPPED = 1
WHEN_POLLED = 2
"""WGPUMapMode_Read, WGPUMapAsyncStatus_Success and WGPUCallbackMode_AllowProcessEvents of webgpu.h.
"""


@dataclass(slots=True)
class _Mapping:
    """The callback of all mappings in this process. C may call it as long as there is a device, so
    it is never freed.

    * ``told``: for each mapping that is waited for, by its number, the status that C reported; 0
      before that.
    * ``interrupts``: exceptions raised inside the callback, which C can't pass on.
    """

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
    is_view: bool

    def __call__(self) -> Bytes:
        """Wait for the bytes and return them, copied unless this is a view. After an interrupt this
        can be called again. So the buffer stays mapped as long as it exists, or until the next
        fetch through it."""
        libf, ffi = native()
        mapping = _mapping()
        self.gpu.wait_for(self.submission)
        if mapping.interrupts:
            raise mapping.interrupts.pop()
        where = ffi.NULL
        # 0 means that an interrupt stopped the callback before it could store the status.
        if mapping.told[self.number] in (0, MAPPED):
            with typed(self.gpu.name, requested=self.nbytes):
                where = libf.wgpuBufferGetConstMappedRange(self.staging._internal, 0, self.nbytes)
        if where == ffi.NULL:
            raise DeviceLost(f"{self.gpu.name} stopped answering: a result can't be read",
                             hint="load the model again; a driver update may help")
        data = np.frombuffer(ffi.buffer(where, self.nbytes), np.uint8)
        return data if self.is_view else data.copy()

    @PROCESS.frees
    def __del__(self) -> None:
        _mapping().told.pop(self.number, None)


def fetch(src: WgpuBuffer, nbytes: int, offset: int, staging: WgpuBuffer | None
          ) -> Callable[[], Bytes]:
    """See :meth:`~unladen.backends.base.Backend.fetch`. Reads whole words. A range in several parts
    of a buffer is read at once."""
    pieces = list(src.pieces(offset, nbytes))
    assert offset % 4 == nbytes % 4 == 0, (offset, nbytes)
    if len(pieces) != 1:
        data = read(src, nbytes, offset)
        return lambda: data
    part, at, _, _ = pieces[0]
    gpu, (libf, ffi), mapping = src.gpu, native(), _mapping()
    with typed(gpu.name, requested=nbytes):
        if staging is None:
            through = gpu.buffer(nbytes, staging=True)
        else:
            through = staging.parts[0].buffer
            _unmap(gpu, through)
        encoder = gpu.wgpu.create_command_encoder()
        encoder.copy_buffer_to_buffer(part.buffer, part.offset + at, through, 0, nbytes)
        submission = gpu.submit(encoder.finish())
        fetched = _Fetched(gpu, through, nbytes, submission, next(mapping.numbers),
                           staging is not None)
        mapping.told[fetched.number] = 0
        info = ffi.new("WGPUBufferMapCallbackInfo *", {
            "mode": WHEN_POLLED, "callback": mapping.callback,
            "userdata1": ffi.cast("void *", fetched.number)})
        gpu.mapped.add(through)
        libf.wgpuBufferMapAsync(through._internal, MAP_READ, 0, nbytes, info[0])
    return fetched


def _unmap(gpu: Gpu, through: Any) -> None:
    """End the last fetch through the buffer ``through``."""
    if through in gpu.mapped:
        end_mapping(through)
        gpu.mapped.discard(through)
