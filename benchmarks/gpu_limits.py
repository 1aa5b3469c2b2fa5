"""Measures what a device can do at most: bytes that it copies, and products of a large matrix."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from unladen import quants
from unladen.backends import Backend, BackendOptions, Device, backend_of
from unladen.backends.base import Placed, Segment
from unladen.graph.batch import Batch
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value, Weight
from unladen.types import Limits

COPY_BYTES = 256 << 20
"""The most bytes that are copied at once, more than caches hold."""
N_TIMES, LEAST_S = 3, 0.2
"""How often a time is taken, of which the median counts; and the fewest seconds of one."""


def copy_rate(device: Device) -> float | None:
    """Bytes per second that a copy on ``device`` reads and writes together; None where the backend
    copies through the host."""
    backend = backend_of(device.name)
    n = min(COPY_BYTES, backend.free_bytes(device) // 8, device.max_binding_bytes or COPY_BYTES)
    n = n // 256 * 256
    source, target = (backend.alloc(device, n, "arena") for _ in range(2))
    if not backend.copy(target, 0, source, 0, n):
        return None
    return 2 * n / _seconds(backend, device, lambda: backend.copy(target, 0, source, 0, n))


def product_rate(device: Device, quant: str, n: int, n_tokens: int) -> tuple[str, float]:
    """The format that the device multiplies for ``quant``, and operations per second of a product
    of ``n_tokens`` rows with a matrix of ``n`` times ``n`` weights."""
    backend, options = backend_of(device.name), BackendOptions()
    graph, weight = GraphBuilder(), Weight("w", (n, n), quant)
    x = Value("x", ("T", n))
    (y,) = graph.add("linear", (x,), name="linear", weights={"w0": weight})
    node = graph.finish(y=y).nodes[0]
    limits = Limits(n_tokens, n_tokens, 1, -(-n_tokens // 32), -(-n_tokens // 32))
    used = backend.weight_format(device, node, weight) or "F32"
    nbytes = 4 * n_tokens * n
    scratch = backend.scratch_bytes(device, node, limits, options)
    arena = backend.alloc(device, 2 * nbytes + scratch, "arena")
    row_bytes = quants.get(used).row_bytes(n)
    placed = Placed(weight, backend.alloc(device, n * row_bytes, "weights", row_bytes), 0, used)
    batch = Batch.empty(limits)
    batch.n_tokens = batch.n_outputs = n_tokens
    batch.n_seqs = 1
    batch.q_start[1] = n_tokens
    program = backend.compile(Segment(
        device, (node,), arena, {x: 0, y: nbytes}, {}, (2 * nbytes, scratch), {"w": placed}, {}, {},
        limits, batch, options))
    return used, 2 * n * n * n_tokens / _seconds(backend, device, lambda: backend.run(program))


def _seconds(backend: Backend, device: Device, work: Callable[[], object]) -> float:
    """The median of the seconds that ``work`` takes, started often enough to fill the device."""
    def timed(n: int) -> float:
        backend.sync(device)
        start = time.perf_counter()
        for _ in range(n):
            work()
        backend.sync(device)
        return (time.perf_counter() - start) / n

    timed(1)  # compiles, and brings memory in
    n = max(1, round(LEAST_S / timed(1)))
    return statistics.median(timed(n) for _ in range(N_TIMES))
