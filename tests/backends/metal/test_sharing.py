"""Models share a device, each from threads of its own, and signals come at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

from backends._gpu.watching import N, elsewhere
from backends.metal.faking import Fake, faked
from cases import running
from cases.base import Maker
from unladen.backends.base import BackendOptions
from unladen.backends.metal import objc
from unladen.backends.metal.backend import MetalBackend
from unladen.backends.metal.device import Gpu, Memory
from unladen.backends.metal.program import MetalProgram
from unladen.errors import DeviceLost, UnladenError

Rng = np.random.Generator
DISPATCH = "dispatchThreadgroups:threadsPerThreadgroup:"
COPY = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faked() as fake:
        yield fake


@pytest.fixture
def gpu(fake: Fake) -> Gpu:
    return Gpu("metal:8", 8, frozenset(), set())


def busy(gpu: Gpu, value: int = 1) -> tuple[Memory, Memory]:
    """Two buffers; the device copies the first one, with this value, to the second."""
    a, b = Memory(gpu, N), Memory(gpu, N)
    a.bytes(0, N)[:] = value
    gpu.copy(b, 0, a, 0, N)
    return a, b


def test_another_thread_drops_what_one_asks_about(fake: Fake, gpu: Gpu) -> None:
    """What was started later isn't done, so it isn't dropped."""
    with gpu.commands() as first:
        pass
    with objc.pool():
        first.object.send("waitUntilCompleted")
    _, b = busy(gpu)
    fake.meanwhile("status", gpu.is_idle)
    assert not gpu.is_idle()
    fake.meanwhile("status", gpu.wait)
    assert gpu.is_idle() and (b.bytes(0, N) == 1).all()


def test_a_failure_is_told_to_every_thread(fake: Fake, gpu: Gpu) -> None:
    """Also to one that asks while another reads the error."""
    told: list[UnladenError] = []

    def ask() -> None:
        try:
            gpu.is_idle()
        except UnladenError as error:
            told.append(error)
    fake.fail(2)
    busy(gpu)
    fake.meanwhile("localizedDescription", ask)
    with pytest.raises(DeviceLost, match="it took too long"):
        gpu.wait()
    fake.fail(0)
    assert [type(error) for error in told] == [DeviceLost]


def test_a_wait_is_for_the_work_of_all_threads(fake: Fake, gpu: Gpu) -> None:
    """Another thread starts work while this one does."""
    results: list[Memory] = []
    threads = [Thread(target=lambda: results.append(busy(gpu, 2)[1]))]

    def begin() -> None:
        threads[0].start()
        threads[0].join(1)  # where it needn't wait, it is done by then
    fake.meanwhile("commit", begin)
    results.append(busy(gpu)[1])
    threads[0].join()
    gpu.wait()
    assert sorted(int(memory.bytes(0, N)[0]) for memory in results) == [1, 2]


def test_threads_have_no_pool_of_their_own(fake: Fake) -> None:
    """The stand-in tells each message that is sent outside of one."""
    backend = MetalBackend()
    device = backend.open("metal:0", BackendOptions())

    def work() -> None:
        buffer = backend.alloc(device, N, "arena")
        other = backend.alloc(device, N, "arena")
        backend.write(buffer, np.ones(N, np.uint8))
        assert backend.copy(other, 0, buffer, 0, N)
        later = backend.fetch(other, N)
        assert backend.free_bytes(device) and later().all()
        backend.sync(device)
    elsewhere(work)
    assert not fake.faults()


@pytest.mark.parametrize("message", [DISPATCH, "setComputePipelineState:", "commit"])
def test_a_signal_during_a_step(fake: Fake, rng: Rng, message: str) -> None:
    """An encoder ends all the same, and what was committed is waited for."""
    m = Maker(rng, 8)
    bench = running.Bench(MetalBackend(), m.case("add", m.input("T", 4), m.input("T", 4)))
    first = bench.run()
    program = bench.program
    assert isinstance(program, MetalProgram) and program.gpu.is_idle()
    fake.interrupt(message, 1)
    with pytest.raises(KeyboardInterrupt):
        program.run()
    assert program.gpu.is_idle() == (message != "commit")
    assert np.array_equal(bench.run()[0], first[0])


def test_a_signal_during_a_copy(fake: Fake, gpu: Gpu) -> None:
    a, b = busy(gpu)
    gpu.wait()
    a.bytes(0, N)[:] = 3
    fake.interrupt(COPY, 1)
    with pytest.raises(KeyboardInterrupt):
        gpu.copy(b, 0, a, 0, N)
    assert gpu.is_idle() and (b.bytes(0, N) == 1).all()
    gpu.copy(b, 0, a, 0, N)
    assert (gpu.read(b, 0, N)() == 3).all()
