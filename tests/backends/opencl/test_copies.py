"""Weights that arrive on a queue of their own."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_uint32, c_void_p

import numpy as np

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.backends.opencl import driver
from unladen.backends.opencl.backend import OpenClBackend


def test_bytes_arrive_while_the_first_queue_waits(rng: np.random.Generator) -> None:
    """The first queue waits for an event of the host, which comes only after the bytes."""
    backend = backend_of("opencl")
    assert isinstance(backend, OpenClBackend)
    device = backend.open("opencl:0", BackendOptions())
    gpu, library = backend.gpu("opencl:0"), driver.library()
    assert library is not None
    assert device.writes_ahead
    library.clCreateUserEvent.restype = c_void_p
    library.clCreateUserEvent.argtypes = (c_void_p, c_void_p)
    library.clSetUserEventStatus.argtypes = (c_void_p, c_int32)
    buffer = backend.alloc(device, 4096, "weights")
    old = backend.fetch(buffer, 4096)
    mark = backend.mark(device)
    failed = c_int32(0)
    held = c_void_p(library.clCreateUserEvent(gpu.context, ctypes.byref(failed)))
    assert failed.value == 0
    try:
        waiting = gpu.event(np.empty(0, np.uint8))
        gpu.caller.call("clEnqueueMarkerWithWaitList", gpu.queue, c_uint32(1),
                    ctypes.byref(held), ctypes.byref(waiting.handle))
        gpu.flush()
        data = rng.integers(0, 256, 4096, np.uint8)
        arrive = backend.write_ahead(buffer, data, after=mark)
        gpu.copies.wait()
        assert not waiting.is_done
    finally:
        assert library.clSetUserEventStatus(held, 0) == 0
    arrive()
    assert not old().any()
    np.testing.assert_array_equal(backend.read(buffer, 4096), data)
    assert waiting.is_done
    library.clReleaseEvent(held)
