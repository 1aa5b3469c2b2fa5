"""How fast devices are: what they say, what is measured on the host, what is taken for granted."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Buffer, Device, Placed, Segment
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value, Weight
from unladen.schedule.cut.arena import ALIGNMENT
from unladen.types import Limits

UNKNOWN_BANDWIDTH, UNKNOWN_FLOPS = 200e9, 5e12
"""Of a device that doesn't say: a small graphics card, so that using it is worth a try."""
UNKNOWN_LINK, UNKNOWN_LATENCY_S = 12e9, 15e-6
"""PCI Express 4.0 of eight lanes, and a driver's call each way."""
UNKNOWN_LAUNCH_S = 10e-6
HOST_LAUNCH_S = 3e-6
"""One native call."""

_ROWS, _COLS, _QUANT = 16384, 4096, "Q8_0"
"""A matrix of 68 MiB: beyond what most caches hold, read in about ten milliseconds."""
_MANY = 64
"""Tokens enough for arithmetic to take much longer than reading the matrix."""
_RUNS = 5


def known(device: Device) -> Device:
    """``device`` with a number wherever it doesn't say one."""
    if device.is_host:
        bandwidth, flops = device.bandwidth, device.flops
        if not (bandwidth and flops):
            bandwidth, flops = measure(device.name)
        return replace(device, bandwidth=device.bandwidth or bandwidth,
                       flops=device.flops or flops, launch_s=device.launch_s or HOST_LAUNCH_S)
    return replace(device, bandwidth=device.bandwidth or UNKNOWN_BANDWIDTH,
                   flops=device.flops or UNKNOWN_FLOPS,
                   link_bandwidth=device.link_bandwidth or UNKNOWN_LINK,
                   link_latency_s=device.link_latency_s or UNKNOWN_LATENCY_S,
                   launch_s=device.launch_s or UNKNOWN_LAUNCH_S)


@functools.cache
def measure(name: str) -> tuple[float, float]:
    """Bytes and operations per second of the device ``name``, in one product of its own backend;
    less than half a second, once a process."""
    backend, options = backend_of(name), BackendOptions()
    device = backend.open(name, options)
    weight = Weight("w", (_ROWS, _COLS), _QUANT)
    x, y = Value("x", ("T", _COLS)), Value("y", ("T", _ROWS))
    node = Node("product", "linear", (x,), (y,), {"w0": weight})
    quant = backend.weight_format(node, weight) or _QUANT
    matrix = _buffer(device, weight.nbytes_in(quant))
    limits = Limits(_MANY, 1, 1, 1, 1)
    sizes = [4 * limits.count(v.shape) for v in (x, y)]
    scratch = sum(sizes), backend.scratch_bytes(node, limits, options)
    batch = Batch.empty(limits)
    program = backend.compile(Segment(
        device, (node,), _buffer(device, sum(scratch)), {x: 0, y: sizes[0]}, {}, scratch,
        {"w": Placed(weight, matrix, 0, quant)}, {}, {}, limits, batch, options))

    def seconds(n_tokens: int) -> float:
        batch.n_tokens, batch.n_outputs, batch.n_seqs = n_tokens, 1, 1
        return _seconds(lambda: backend.run(program))
    return matrix.nbytes / seconds(1), 2 * _MANY * weight.n_elements / seconds(_MANY)


def _buffer(device: Device, nbytes: int) -> Buffer:
    """Memory of the host for a moment: no allocation of the backend's, which counts for a plan."""
    # Pages that were never written to are all the same one, which no memory has to deliver.
    data = np.ones(nbytes + ALIGNMENT, np.uint8)
    start = -data.ctypes.data % ALIGNMENT
    buffer = backend_of(device.name).wrap(device, data[start:start + nbytes])
    assert buffer is not None, f"{device.name} computes on the host's memory"
    return buffer


def _seconds(run: Callable[[], object]) -> float:
    """Of the middle one of a few runs: what else is going on will go on."""
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(sorted(times)[_RUNS // 2], 1e-9)
