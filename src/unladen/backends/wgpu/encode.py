"""Encodes dispatches: the only part that a step pays for by the piece.

wgpu-py's own methods check and convert their arguments, four times the cost of the calls that they
make; so these go to the C library, with handles that were looked up before.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu

Encoded = tuple[Any, Any, int, int, int]
"""Pipeline, bind group, workgroups in x, y and z."""


@functools.cache
def _native() -> tuple[Any, Any, Any, Any]:
    ffi = importlib.import_module("wgpu.backends.wgpu_native._ffi")
    lib = ffi.lib
    return (lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup,
            lib.wgpuComputePassEncoderDispatchWorkgroups, ffi.ffi.NULL)


def submit(gpu: Gpu, step: Any, dispatches: Sequence[Encoded]) -> None:
    """Hand ``dispatches`` to the device in one command buffer; returns before they are done.

    ``step``: the bind group that they share. What is wrong with one of them is raised by the end of
    the encoder, which is called through wgpu-py.
    """
    set_pipeline, set_bind_group, dispatch, null = _native()
    with typed(gpu.name):
        encoder = gpu.wgpu.create_command_encoder()
        compute = encoder.begin_compute_pass()
        handle = compute._internal
        set_bind_group(handle, 0, step._internal, 0, null)
        last = None
        for pipeline, bindings, x, y, z in dispatches:
            if pipeline is not last:
                set_pipeline(handle, pipeline)
                last = pipeline
            set_bind_group(handle, 1, bindings, 0, null)
            dispatch(handle, x, y, z)
        compute.end()
        gpu.queue.submit([encoder.finish()])
