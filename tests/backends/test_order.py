"""A device does what it is told in the order in which it is told, two devices keep each other's."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from cases import running
from cases.base import Maker
from delayed import DelayedBackend, Event
from delayed import delayed as delayed
from unladen.backends import backend_of
from unladen.backends.base import Backend, BackendOptions, Buffer, Segment
from unladen.errors import BackendNotInitialised
from unladen.graph.graph import Value

Bytes = npt.NDArray[np.uint8]
N_BYTES, N_TOKENS, N_COLS = 4096, 4, 16
SUM_BYTES = 4 * N_TOKENS * N_COLS
BACKENDS = ["cpu", "delayed", "opencl", "reference", "wgpu"]


@dataclass
class Told:
    """A buffer of a device, and what must be in it after all that was started so far."""

    backend: Backend
    buffer: Buffer
    truth: Bytes
    add: object
    staging: Buffer


def program(backend: Backend, buffer: Buffer, offsets: tuple[int, int, int],
            rng: np.random.Generator) -> object:
    """z = x + y, in places of ``buffer``."""
    m = Maker(rng, N_TOKENS)
    x, y = m.input("T", N_COLS), m.input("T", N_COLS)
    case = m.case("add", x, y)
    values: list[Value] = [x, y, *case.node.outputs]
    return backend.compile(Segment(
        buffer.device, case.graph.nodes, buffer, dict(zip(values, offsets, strict=True)), {},
        (N_BYTES, 0), {}, {}, {}, case.limits, case.batch, BackendOptions()))


def told(backend: Backend, number: int, rng: np.random.Generator) -> Told:
    device = backend.open(f"{backend.name}:{number}", BackendOptions())
    buffer = backend.alloc(device, N_BYTES, "arena")
    truth = rng.standard_normal(N_BYTES // 4).astype(np.float32).view(np.uint8)
    backend.write(buffer, truth)
    return Told(backend, buffer, truth.copy(), program(backend, buffer, (0, 1024, 2048), rng),
                backend.alloc(device, N_BYTES, "staging"))


def numbers(data: Bytes, start: int) -> npt.NDArray[np.float32]:
    return data[start:start + SUM_BYTES].view(np.float32)


@pytest.mark.parametrize("names", list(itertools.product(BACKENDS, repeat=2)),
                         ids="-".join)
def test_any_order(names: tuple[str, str], delayed: DelayedBackend, rng: np.random.Generator
                   ) -> None:
    """Random orders to two devices, without any waiting between them."""
    try:
        both = [told(backend_of(name), i, rng) for i, name in enumerate(names)]
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    waits: list[tuple[Callable[[], Bytes], Bytes]] = []
    for _ in range(60):
        what, one = rng.integers(6), both[rng.integers(2)]
        start = 4 * int(rng.integers(0, N_BYTES // 4))
        n = 4 * int(rng.integers(0, (N_BYTES - start) // 4 + 1))
        if what == 0:
            data = rng.standard_normal(n // 4).astype(np.float32).view(np.uint8)
            one.backend.write(one.buffer, data, start)
            one.truth[start:start + n] = data
            data[:] = 0
        elif what in (1, 2):
            one.backend.run(one.add)  # type: ignore[arg-type]
            numbers(one.truth, 2048)[:] = numbers(one.truth, 0) + numbers(one.truth, 1024)
        elif what == 3:
            wait = one.backend.fetch(one.buffer, n, start)
            waits.append((wait, one.truth[start:start + n].copy()))
        elif what == 4:
            wait = one.backend.fetch(one.buffer, n, start, one.staging)
            if rng.integers(2):
                np.testing.assert_array_equal(wait(), one.truth[start:start + n])
        else:
            cross(one, both[rng.integers(2)], start, n, rng)
    for i in rng.permutation(len(waits)):
        np.testing.assert_array_equal(waits[i][0](), waits[i][1])
    for one in both:
        np.testing.assert_array_equal(one.backend.read(one.buffer, N_BYTES), one.truth)


def cross(source: Told, target: Told, start: int, n: int, rng: np.random.Generator) -> None:
    """Copy ``n`` bytes, through the host where the backend wants that."""
    to = 4 * int(rng.integers(0, (N_BYTES - n) // 4 + 1))
    if source is target and start < to + n and to < start + n:
        return  # what a copy onto itself comes to is nobody's business
    data = source.truth[start:start + n].copy()
    if source.backend is not target.backend or not source.backend.copy(
            target.buffer, to, source.buffer, start, n):
        wait = source.backend.fetch(source.buffer, n, start, source.staging)
        target.backend.write(target.buffer, wait(), to)
    target.truth[to:to + n] = data


@pytest.mark.parametrize("name", BACKENDS)
def test_a_run_is_through_with_the_batch(name: str, delayed: DelayedBackend,
                                         rng: np.random.Generator) -> None:
    """Its numbers may change while the device hasn't begun yet."""
    m = Maker(rng, 6)
    case = m.case("add", m.input("T", 10), m.input("T", 10))
    backend = backend_of(name)
    try:
        bench = running.Bench(backend, case)
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    expected = bench.run()[0]
    (z,) = case.node.outputs
    backend.write(bench.arena, np.zeros(expected.nbytes, np.uint8), bench.offsets[z])
    with delayed.stopped():
        backend.run(bench.program)
        case.batch.n_tokens = case.batch.n_seqs = 1
    raw = backend.read(bench.arena, expected.nbytes, bench.offsets[z])
    np.testing.assert_array_equal(raw.view(np.float32).reshape(6, 10), expected)


@pytest.mark.parametrize("name", BACKENDS)
def test_bytes_that_are_written_ahead(name: str, delayed: DelayedBackend, rng: np.random.Generator
                                      ) -> None:
    """Work before the mark sees the old bytes, work after the arrival the new ones, and what runs
    in between isn't disturbed."""
    try:
        one = told(backend_of(name), 0, rng)
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    backend, buffer, truth = one.backend, one.buffer, one.truth
    waits: list[tuple[Callable[[], Bytes], Bytes]] = []
    kept: list[Bytes] = []
    for _ in range(40):
        start = 3072 + 4 * int(rng.integers(0, 200))
        n = 4 * int(rng.integers(0, (N_BYTES - start) // 4 + 1))
        data = rng.standard_normal(n // 4).astype(np.float32).view(np.uint8)
        kept.append(data)
        waits.append((backend.fetch(buffer, n, start), truth[start:start + n].copy()))
        mark = backend.mark(buffer.device)
        waits.append(_work(one, rng))
        arrive = backend.write_ahead(buffer, data, start, after=mark)
        waits.append(_work(one, rng))
        arrive()
        truth[start:start + n] = data
        if rng.integers(2):
            waits.append((backend.fetch(buffer, N_BYTES), truth.copy()))
    for i in rng.permutation(len(waits)):
        np.testing.assert_array_equal(waits[i][0](), waits[i][1])
    backend.sync(buffer.device)
    np.testing.assert_array_equal(backend.read(buffer, N_BYTES), truth)


def _work(one: Told, rng: np.random.Generator) -> tuple[Callable[[], Bytes], Bytes]:
    """Writes and a run that leave the last kilobyte alone; a fetch of the rest, and what it gets.
    """
    for place in (0, 1024):
        if rng.integers(2):
            x = rng.standard_normal(SUM_BYTES // 4).astype(np.float32).view(np.uint8)
            one.backend.write(one.buffer, x, place)
            one.truth[place:place + SUM_BYTES] = x
    one.backend.run(one.add)  # type: ignore[arg-type]
    numbers(one.truth, 2048)[:] = numbers(one.truth, 0) + numbers(one.truth, 1024)
    return one.backend.fetch(one.buffer, 3072), one.truth[:3072].copy()


def test_bytes_arrive_while_the_device_is_at_work(delayed: DelayedBackend, rng: np.random.Generator
                                                  ) -> None:
    """They overtake what was started after the mark, which waits here for their arrival."""
    one = told(delayed, 0, rng)
    worker, arrived = delayed.worker(one.buffer.device), threading.Event()
    mark = delayed.mark(one.buffer.device)
    worker.start("work until then", lambda: _expect(arrived))
    data = rng.integers(0, 256, 512, np.uint8)
    arrive = delayed.write_ahead(one.buffer, data, 3072, after=mark)
    give_up = time.monotonic() + 60
    while Event("done", "delayed:0 copies", "write ahead") not in delayed.log:
        assert time.monotonic() < give_up
        time.sleep(1e-3)
    assert Event("done", "delayed:0", "work until then") not in delayed.log
    arrived.set()
    arrive()
    np.testing.assert_array_equal(delayed.read(one.buffer, 512, 3072), data)


def _expect(event: threading.Event) -> None:
    assert event.wait(60)
