"""Encodes dispatches: the only part that a step pays for by the piece.

wgpu-py's own methods check and convert their arguments, four times the cost of the calls that they
make; so these go to the C library, with handles that were looked up before.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from unladen.backends.wgpu.adapters import native
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu

Encoded = tuple[Any, Any, int, int, int]
"""Pipeline, bind group, workgroups in x, y and z."""


@functools.cache
def _unchecked() -> tuple[Any, Any, Any]:
    """The calls that are made for each dispatch. None of them raises: what is wrong with one is
    found by the end of the encoder."""
    lib = importlib.import_module("wgpu.backends.wgpu_native._ffi").lib
    return (lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup,
            lib.wgpuComputePassEncoderDispatchWorkgroups)


def submit(gpu: Gpu, step: Any, dispatches: Sequence[Encoded]) -> int:
    """Hand ``dispatches`` to the device in one command buffer; returns before they are done, with
    the number that :meth:`Gpu.wait_for` takes. ``step``: the bind group that they share."""
    set_pipeline, set_bind_group, dispatch = _unchecked()
    libf, ffi = native()
    null = ffi.NULL
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
        finished = encoder.finish()
        commands = ffi.new("WGPUCommandBuffer[]", [finished._internal])
        return int(libf.wgpuQueueSubmitForIndex(gpu.queue._internal, 1, commands))
