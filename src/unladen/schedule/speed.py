"""How fast devices are: what they say, what is measured on the host, what is assumed of the rest."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from unladen.backends.base import Device

UNKNOWN_BANDWIDTH, UNKNOWN_FLOPS = 200e9, 5e12
"""Of a device that doesn't say: a small graphics card, so that using it is worth a try."""
UNKNOWN_LINK, UNKNOWN_LATENCY_S = 12e9, 15e-6
"""PCI Express 4.0 of eight lanes, and a driver's call each way."""
UNKNOWN_LAUNCH_S = 10e-6
HOST_LAUNCH_S = 3e-6
"""One native call."""

_READ_BYTES = 64 << 20
"""Beyond what most caches hold, and read in about ten milliseconds."""
_MATRIX = 512


def known(device: Device) -> Device:
    """``device`` with a number wherever it doesn't say one."""
    if device.is_host:
        return replace(device, bandwidth=device.bandwidth or host_bandwidth(),
                       flops=device.flops or host_flops(),
                       launch_s=device.launch_s or HOST_LAUNCH_S)
    return replace(device, bandwidth=device.bandwidth or UNKNOWN_BANDWIDTH,
                   flops=device.flops or UNKNOWN_FLOPS,
                   link_bandwidth=device.link_bandwidth or UNKNOWN_LINK,
                   link_latency_s=device.link_latency_s or UNKNOWN_LATENCY_S,
                   launch_s=device.launch_s or UNKNOWN_LAUNCH_S)


@functools.cache
def host_bandwidth() -> float:
    """Bytes that all cores together read from memory in a second, measured once."""
    n_threads = min(os.cpu_count() or 1, 16)
    parts = np.ones(_READ_BYTES // 8, np.uint64)
    parts = parts[:parts.size // n_threads * n_threads].reshape(n_threads, -1)
    with ThreadPoolExecutor(n_threads) as pool:
        def read() -> None:
            list(pool.map(np.max, parts))
        return parts.nbytes / _seconds(read)


@functools.cache
def host_flops() -> float:
    """Operations in a second of a float32 matrix product, measured once."""
    a = np.ones((_MATRIX, _MATRIX), np.float32)
    return 2 * _MATRIX ** 3 / _seconds(lambda: a @ a)


def _seconds(run: Callable[[], object]) -> float:
    """Of the quickest of four runs: the others were disturbed."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)
