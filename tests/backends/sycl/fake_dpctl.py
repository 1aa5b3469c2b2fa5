"""A fake dpctl over the host's memory. Work of a queue is done when someone waits for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unladen.backends.sycl import driver


class Memory:
    """Memory of a device."""

    def __init__(self, nbytes: int, **_: Any) -> None:
        self.data = np.zeros(nbytes, np.uint8)
        self.__sycl_usm_array_interface__ = {
            "data": (self.data.ctypes.data, False), "shape": (nbytes,), "offset": 0}

    def memset(self, value: int) -> None:
        self.data[:] = value


class Event:
    """The end of some work of ``queue``."""

    def __init__(self, queue: Queue, work: Callable[[], object]) -> None:
        self.queue, self.work, self.is_done = queue, work, False

    @property
    def execution_status(self) -> str:
        is_done, asked = self.is_done, self.queue.asked
        self.queue.asked = None
        if asked is not None:
            asked()
        return "complete" if is_done else "submitted"

    def wait(self) -> None:
        while not self.is_done:
            self.queue.do_next()


class Queue:
    """A queue. ``asked`` and ``waited`` are called once: after an event was asked whether it is
    done, and after the queue was waited for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.events: list[Event] = []
        self.asked: Callable[[], object] | None = None
        self.waited: Callable[[], object] | None = None

    def do_next(self) -> None:
        event = self.events.pop(0)
        event.work()
        event.is_done = True

    def wait(self) -> None:
        while self.events:
            self.do_next()
        waited, self.waited = self.waited, None
        if waited is not None:
            waited()

    def submit(self, work: Callable[[], object]) -> Event:
        self.events.append(Event(self, work))
        return self.events[-1]

    def memcpy_async(self, dst: Any, src: Any, nbytes: int) -> Event:
        # Addresses alone: like the driver, this keeps nothing.
        to, of = address(dst), address(src)
        return self.submit(lambda: ctypes.memmove(to, of, nbytes))

    def submit_async(self, kernel: Any, *_: Any) -> Event:
        return self.submit(lambda: None)

    def submit_barrier(self) -> None:
        return


def address(place: Any) -> int:
    if isinstance(place, np.ndarray):
        return place.ctypes.data
    found: int = place.__sycl_usm_array_interface__["data"][0]
    return found


def device(**different: Any) -> Any:
    """A device as dpctl describes it."""
    return SimpleNamespace(**{
        "name": "card", "filter_string": "opencl:gpu:0", "is_cpu": False,
        "global_mem_size": 1 << 30, "max_mem_alloc_size": 1 << 29,
        "backend": SimpleNamespace(name="opencl"),
        "has_aspect_usm_device_allocations": True, "max_work_group_size": 1024,
        "local_mem_size": 1 << 16, **different})


@contextmanager
def faked() -> Iterator[None]:
    """dpctl has one device meanwhile."""
    compiled = SimpleNamespace(get_sycl_kernel=lambda name: name)
    there = SimpleNamespace(
        get_devices=lambda: [device()], SyclQueue=Queue,
        event_status_type=SimpleNamespace(complete="complete"),
        memory=SimpleNamespace(MemoryUSMDevice=Memory, as_usm_memory=lambda part: part),
        program=SimpleNamespace(create_program_from_source=lambda *_: compiled,
                                SyclProgramCompilationError=ValueError))
    driver.found.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for module in (driver, __import__("unladen.backends.sycl.device", fromlist=["device"])):
            patch.setattr(module, "dpctl", lambda: there)
        yield
    driver.found.cache_clear()
