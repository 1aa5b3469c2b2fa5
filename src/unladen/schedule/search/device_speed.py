"""The speeds of devices: told by the device, measured on the host, or assumed."""

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
"""Bytes and operations a second that are assumed of a device that doesn't tell them: those of a
small graphics card, so that the search uses the device."""

UNKNOWN_LINK, UNKNOWN_LATENCY_S = 12e9, 15e-6
"""Bytes a second of a link, and seconds before a copy starts, that are assumed where the device
doesn't tell them: PCI Express 4.0 with eight lanes, and a call of the driver."""

UNKNOWN_LAUNCH_S = 10e-6
"""Assumed seconds of a segment's start on a device that doesn't tell them."""

HOST_LAUNCH_S = 3e-6
"""Seconds of a segment's start on the host: one native call."""

_ROWS, _COLS, _QUANT = 16384, 4096, "Q8_0"
"""Rows, columns and format of the matrix for the measurement: its 68 MiB are more than most caches
hold, and are read in about 10 ms."""

_N_TOKENS = 64
"""Tokens of the step that measures arithmetic: with this many, arithmetic takes much longer than
reading the matrix."""

_N_RUNS = 5
"""Number of runs; their median is the result."""


def known(device: Device) -> Device:
    """``device`` with an estimate for each speed that it doesn't tell."""
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
    """Bytes and operations a second of the device ``name``, measured in a product of its own
    backend; those of an unknown device where it has no products. This takes less than half a
    second, once in a process."""
    backend, options = backend_of(name), BackendOptions()
    device = backend.open(name, options)
    weight = Weight("w", (_ROWS, _COLS), _QUANT)
    x, y = Value("x", ("T", _COLS)), Value("y", ("T", _ROWS))
    node = Node("product", "linear", (x,), (y,), {"w0": weight})
    if not backend.supports(device, node):
        return UNKNOWN_BANDWIDTH, UNKNOWN_FLOPS
    quant = backend.weight_format(device, node, weight) or _QUANT
    matrix = _buffer(device, weight.nbytes_in(quant))
    limits = Limits(_N_TOKENS, 1, 1, 1, 1)
    sizes = [4 * limits.count(v.shape) for v in (x, y)]
    scratch = sum(sizes), backend.scratch_bytes(device, node, limits, options)
    batch = Batch.empty(limits)
    program = backend.compile(Segment(
        device, (node,), _buffer(device, sum(scratch)), {x: 0, y: sizes[0]}, {}, scratch,
        {"w": Placed(weight, matrix, 0, quant)}, {}, {}, limits, batch, options))

    def seconds(n_tokens: int) -> float:
        batch.n_tokens, batch.n_outputs, batch.n_seqs = n_tokens, 1, 1
        return _seconds(lambda: backend.run(program))
    return matrix.nbytes / seconds(1), 2 * _N_TOKENS * weight.n_elements / seconds(_N_TOKENS)


def _buffer(device: Device, nbytes: int) -> Buffer:
    """Memory of the host that the backend didn't allocate, since its allocations are counted."""
    # Write to all pages: pages without a write are all the same page of zeros, which is always in a
    # cache.
    data = np.ones(nbytes + ALIGNMENT, np.uint8)
    start = -data.ctypes.data % ALIGNMENT
    buffer = backend_of(device.name).wrap(device, data[start:start + nbytes])
    assert buffer is not None, f"{device.name} computes on the host's memory"
    return buffer


def _seconds(run: Callable[[], object]) -> float:
    """The median seconds of a few runs, since the machine may do other work as well."""
    times = []
    for _ in range(_N_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(sorted(times)[_N_RUNS // 2], 1e-9)
