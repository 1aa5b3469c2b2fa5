"""Encodes dispatches: the only part of a step whose cost grows with their number.

wgpu-py's own methods check and convert their arguments, which takes four times as long as the calls
that they make. So this module calls the C library, with handles that were looked up before.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unladen.backends._gpu.target import Range
from unladen.backends.wgpu.adapters import native
from unladen.backends.wgpu.failure import typed
from unladen.backends.wgpu.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the first bytes of ``source`` that fills ``target``."""

    source: Range
    target: Range


Encoded = tuple[Any, Any, int, int, int]
"""Pipeline, bind group, workgroups in x, y and z."""


@functools.cache
def _unchecked() -> tuple[Any, Any, Any]:
    """The three C functions of a dispatch. They raise nothing; the encoder reports errors at its
    end."""
    lib = importlib.import_module("wgpu.backends.wgpu_native._ffi").lib
    return (lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup,
            lib.wgpuComputePassEncoderDispatchWorkgroups)


def submit(gpu: Gpu, step: Any, dispatches: Sequence[Encoded], first: Copy | None = None) -> int:
    """Submit ``first`` and ``dispatches`` in one command buffer, and return the number of this
    submission for :meth:`Gpu.wait_for`. ``step``: the bind group that the dispatches share."""
    set_pipeline, set_bind_group, dispatch = _unchecked()
    _, ffi = native()
    null = ffi.NULL
    with typed(gpu.name):
        encoder = gpu.wgpu.create_command_encoder()
        if first is not None:
            source, target = first.source, first.target
            encoder.copy_buffer_to_buffer(source.buffer, source.offset, target.buffer,
                                          target.offset, target.nbytes)
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
        return gpu.submit(finished)
