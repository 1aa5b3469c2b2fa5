"""Models share a device, each from threads of its own, and the last one ends at any moment."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int32, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends._gpu.watching import N, alive, check_counting, elsewhere, watched
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.queued import QueueBuffer
from unladen.backends._gpu.target import Range
from unladen.backends.base import BackendOptions
from unladen.backends.opencl import driver
from unladen.backends.opencl.backend import OpenClBackend
from unladen.backends.opencl.copying import write_ahead
from unladen.backends.opencl.device import WRITE_BYTES, Gpu, Memory


@pytest.fixture
def gpu() -> Gpu:
    return Gpu("opencl:8", 8, set())


class Hold:
    """What the queue of ``gpu`` is given after this waits until :meth:`end`."""

    def __init__(self, gpu: Gpu) -> None:
        self.library: Any = driver.library()
        self.library.clCreateUserEvent.restype = c_void_p
        self.library.clCreateUserEvent.argtypes = c_void_p, c_void_p
        self.library.clSetUserEventStatus.argtypes = c_void_p, c_int32
        failed = c_int32(0)
        self.event = c_void_p(self.library.clCreateUserEvent(gpu.context, ctypes.byref(failed)))
        assert failed.value == 0
        self.is_over = False
        gpu.caller.call("clEnqueueMarkerWithWaitList", gpu.queue, c_uint32(1),
                    ctypes.byref(self.event), None)

    def end(self) -> None:
        if not self.is_over:
            self.is_over = True
            assert self.library.clSetUserEventStatus(self.event, 0) == 0
            self.library.clReleaseEvent(self.event)


@contextmanager
def holding(gpu: Gpu) -> Iterator[Hold]:
    hold = Hold(gpu)
    try:
        yield hold
    finally:
        hold.end()


@contextmanager
def meanwhile(name: str, work: Callable[[], object], *, after: bool = False) -> Iterator[None]:
    """The next call of a function of the driver, or what comes right after it, is interrupted by
    ``work``."""
    library: Any = driver.library()
    real, left = getattr(library, name), [work]

    def function(*arguments: Any) -> int:
        if left and not after:
            left.pop()()
        failed: int = real(*arguments)
        if left:
            left.pop()()
        return failed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, name, function)
        yield
    assert not left


def test_another_thread_writes_while_one_asks(gpu: Gpu) -> None:
    """It drops the same work first, and its own isn't done."""
    memory, copies = Memory(gpu, N), []
    gpu.write(memory, 0, watched(1, copies))
    gpu.caller.call("clFinish", gpu.queue)
    with holding(gpu):
        second = watched(2, copies)
        with meanwhile("clGetEventInfo", lambda: elsewhere(lambda: gpu.write(memory, 0, second))):
            gpu.write(memory, 0, watched(3, copies))
        assert len(copies) == 3 and alive(copies)[1:] == [True, True]
    assert gpu.read(memory, 0, N)()[0] in (2, 3)


def test_another_thread_writes_while_one_waits(gpu: Gpu) -> None:
    memory, copies, holds = Memory(gpu, N), [], []

    def work() -> None:
        holds.append(Hold(gpu))
        gpu.write(memory, 0, watched(1, copies))
    try:
        with meanwhile("clFinish", lambda: elsewhere(work), after=True):
            gpu.wait()
        assert alive(copies) == [True]
    finally:
        for hold in holds:
            hold.end()
    assert (gpu.read(memory, 0, N)() == 1).all()


def test_nobody_waits_for_the_long_upload_of_another(gpu: Gpu) -> None:
    """The driver waits in it until the bytes are copied."""
    memory, other = Memory(gpu, 2 * WRITE_BYTES), Memory(gpu, N)
    data = np.full(WRITE_BYTES + 1, 3, np.uint8)
    short = np.full(N, 1, np.uint8)
    with meanwhile("clEnqueueWriteBuffer", lambda: elsewhere(lambda: gpu.write(other, 0, short))):
        gpu.write(memory, 0, data)
    assert (gpu.read(memory, 0, data.size)() == 3).all()
    assert (gpu.read(other, 0, N)() == 1).all()


def test_a_signal_right_after_the_start(gpu: Gpu) -> None:
    """Its handler's exception leaves the bytes to the driver."""
    def interrupt() -> None:
        raise KeyboardInterrupt
    memory, copies = Memory(gpu, N), []
    with holding(gpu):
        with meanwhile("clEnqueueWriteBuffer", interrupt, after=True), \
                pytest.raises(KeyboardInterrupt):
            gpu.write(memory, 0, watched(1, copies))
        assert alive(copies) == [True]
        with meanwhile("clEnqueueWriteBuffer", interrupt), pytest.raises(KeyboardInterrupt):
            gpu.write(memory, 0, watched(2, copies))
        assert alive(copies) == [True, False]
    assert (gpu.read(memory, 0, N)() == 1).all()


def test_threads_allocate_at_the_same_time(gpu: Gpu) -> None:
    check_counting(gpu, Memory)


def test_two_threads_compile_and_upload_the_same(gpu: Gpu, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have what the first one made: a kernel doesn't keep its codebook."""
    (tmp_path / "one.h").write_text("#bind out float y\n\nKERNEL(one) { y[0] = 1.0f; }\n")
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(tmp_path, ".h", "c"))
    firsts: list[Any] = []
    build, upload, released = gpu.builder.build, gpu.upload, []

    def builds(*arguments: Any) -> Any:
        monkeypatch.setattr(gpu.builder, "build", build)
        elsewhere(lambda: firsts.append(gpu.compiled("one", "", {"WG": 64})))
        return build(*arguments)

    def uploads(data: Any) -> Any:
        monkeypatch.setattr(gpu, "upload", upload)
        elsewhere(lambda: firsts.append(gpu._grid("iq2s")))
        return upload(data)
    monkeypatch.setattr(gpu.builder, "build", builds)
    monkeypatch.setattr(gpu, "upload", uploads)
    with meanwhile("clReleaseProgram", lambda: released.append(1)):
        assert gpu.compiled("one", "", {"WG": 64}) is firsts.pop()
    assert released
    assert gpu._grid("iq2s") is firsts.pop() is gpu._grid("iq2s")


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What happens, in order: queues, when they are finished, and "freed". A :class:`Hold` that is
    put there ends when a queue is to be finished."""
    library: Any = driver.library()
    real, found = library.clFinish, []

    def end_holds() -> None:
        for hold in [each for each in found if isinstance(each, Hold)]:
            hold.end()

    def finish(queue: c_void_p) -> int:
        end_holds()
        failed: int = real(queue)
        found.append(queue.value)
        return failed
    monkeypatch.setattr(library, "clFinish", finish)
    yield found
    end_holds()


@pytest.mark.parametrize("way", ["write", "read", "write ahead"])
def test_a_device_ends_when_its_work_is_done(order: list[Any], way: str) -> None:
    """Threads of the driver use memory of the host until then. A plan may be closed while a step
    that ran ahead is read."""
    gpu = Gpu("opencl:8", 8, set())
    memory = Memory(gpu, N)
    queue, copies = gpu.queue.value, []
    order.append(Hold(gpu))
    if way == "write":
        gpu.write(memory, 0, watched(1, copies))
        array = copies[0]()
    elif way == "read":
        array = gpu.read(memory, 0, N).__self__.kept  # type: ignore[attr-defined]
    else:
        queue, array = gpu.copies.queue.value, np.zeros(N, np.uint8)
        write_ahead(QueueBuffer(gpu, N, (Range(memory, 0, N),), N), array, 0, gpu.mark())
    weakref.finalize(array, order.append, "freed")
    del array
    gc.collect()
    assert "freed" not in order
    del memory, gpu
    gc.collect()
    assert order.index(queue) < order.index("freed")


def test_closing_waits(order: list[Any]) -> None:
    """The device itself may stay as long as someone refers to a buffer on it."""
    backend = OpenClBackend()
    device = backend.open("opencl:0", BackendOptions())
    gpu, buffer = backend.gpu("opencl:0"), backend.alloc(device, N, "arena")
    order.append(Hold(gpu))
    later = backend.fetch(buffer, N)
    assert order[1:] == []
    backend.close(device)
    assert gpu.queue.value in order
    assert not later().any()
