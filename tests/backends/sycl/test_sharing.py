"""Models share a device, each from threads of its own, and the last one ends at any moment."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backends._gpu.watching import N, alive, check_counting, elsewhere, watched
from backends.sycl.fake_dpctl import Queue, faked
from cases import running
from cases.base import Maker
from unladen.backends.base import BackendOptions
from unladen.backends.sycl.backend import SyclBackend
from unladen.backends.sycl.device import Gpu, Memory
from unladen.backends.sycl.program import SyclProgram


@pytest.fixture(autouse=True)
def _fake() -> Iterator[None]:
    with faked():
        yield


@pytest.fixture
def gpu() -> Gpu:
    return Gpu("sycl:8", 8, set())


def test_another_thread_writes_while_one_asks(gpu: Gpu) -> None:
    """It drops the same work first, and its own isn't done."""
    memory, copies = Memory(gpu, N), []
    gpu.write(memory, 0, watched(1, copies))
    gpu.queue.wait()
    gpu.queue.asked = lambda: elsewhere(lambda: gpu.write(memory, 0, watched(2, copies)))
    gpu.write(memory, 0, watched(3, copies))
    assert len(copies) == 3 and alive(copies)[1:] == [True, True]
    assert (gpu.read(memory, 0, N)() == 3).all()


def test_another_thread_writes_while_one_waits(gpu: Gpu) -> None:
    memory, copies = Memory(gpu, N), []
    gpu.queue.waited = lambda: elsewhere(lambda: gpu.write(memory, 0, watched(1, copies)))
    gpu.wait()
    assert alive(copies) == [True]
    gpu.wait()
    assert alive(copies) == [False]


def test_threads_allocate_at_the_same_time(gpu: Gpu) -> None:
    check_counting(gpu, Memory)


def test_a_device_ends_when_its_work_is_done() -> None:
    gpu = Gpu("sycl:8", 8, set())
    memory, copies, order = Memory(gpu, N), [], []
    gpu.write(memory, 0, watched(1, copies))
    array = copies[0]()
    weakref.finalize(array, order.append, "freed")
    del array
    gpu.queue.waited = lambda: order.append("done")
    del memory, gpu
    gc.collect()
    assert order == ["done", "freed"]


def test_closing_waits() -> None:
    """The device itself may stay as long as someone refers to a buffer on it."""
    backend = SyclBackend()
    device = backend.open("sycl:0", BackendOptions())
    gpu, buffer = backend.gpu("sycl:0"), backend.alloc(device, N, "arena")
    later = backend.fetch(buffer, N)
    assert gpu.queue.events
    backend.close(device)
    assert not gpu.queue.events and not later().any()


def test_what_was_started_keeps_its_program(rng: np.random.Generator,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler raises an exception between two dispatches."""
    m = Maker(rng, 8)
    bench = running.Bench(SyclBackend(), m.case("add", m.input("T", 4), m.input("T", 4)))
    program = bench.program
    assert isinstance(program, SyclProgram)
    gpu, real, n = program.gpu, Queue.submit_async, []
    program.dispatches = [*program.dispatches, *program.dispatches]

    def submit(queue: Queue, *arguments: Any) -> Any:
        if n:
            raise KeyboardInterrupt
        n.append(1)
        return real(queue, *arguments)
    monkeypatch.setattr(Queue, "submit_async", submit)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    there: list[str] = ["kept"]
    weakref.finalize(program.words, there.clear)
    del program, bench
    gc.collect()
    assert there
    gpu.wait()
    gc.collect()
    assert not there
