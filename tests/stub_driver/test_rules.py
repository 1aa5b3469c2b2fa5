"""The stub of a driver notices what a real one refuses, or what goes wrong there by chance."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p
from typing import Any

import pytest

from stub_driver.stub import Stub, at_rest
from unladen.backends._gpu.cuda_like.memory import _Access, _Pages

PAGE = 64 << 10
NO_TIMING, NON_BLOCKING, PORTABLE = 2, 1, 1
GLOBAL, RELAXED = 0, 2


class Calls:
    """Calls of the stub by name. Each must succeed, or fail with ``error``."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(self, name: str, *arguments: Any, error: int = 0) -> None:
        assert getattr(self._library, name)(*arguments) == error, name

    def made(self, name: str, *arguments: Any) -> c_void_p:
        """What a function makes."""
        handle = c_void_p()
        self(name, byref(handle), *arguments)
        return handle


@pytest.fixture
def driver() -> Iterator[Stub]:
    with at_rest() as found:
        yield found


@pytest.fixture
def call(driver: Stub) -> Iterator[Calls]:
    """Two cards with contexts; the first one's is the thread's."""
    driver.set("devices", 2)
    calls = Calls(driver.library)
    calls("cuInit", 0)
    contexts = [calls.made("cuDevicePrimaryCtxRetain", i) for i in range(2)]
    calls("cuCtxSetCurrent", contexts[0])
    yield calls
    for i in range(2):
        calls("cuDevicePrimaryCtxRelease_v2", i)
    calls("cuCtxSetCurrent", c_void_p())


def on_second(call: Calls) -> Callable[[], None]:
    """Makes the second card's context the thread's; the result makes it the first one's again."""
    call("cuCtxSetCurrent", c_void_p(2))
    return lambda: call("cuCtxSetCurrent", c_void_p(1))


def test_memory_of_another_card(driver: Stub, call: Calls) -> None:
    stream = call.made("cuStreamCreate", NON_BLOCKING)
    back = on_second(call)
    memory = call.made("cuMemAlloc_v2", ctypes.c_size_t(64))
    back()
    call("cuMemsetD8Async", memory, 0, ctypes.c_size_t(64), stream)
    assert driver.faults() == ["a fill on card 0 uses memory of card 1"]
    call("cuStreamSynchronize", stream)
    call("cuMemFree_v2", memory)


def test_memory_that_is_pinned_for_another_card(driver: Stub, call: Calls) -> None:
    stream = call.made("cuStreamCreate", NON_BLOCKING)
    memory, n = call.made("cuMemAlloc_v2", ctypes.c_size_t(64)), ctypes.c_size_t(64)
    back = on_second(call)
    pinned = [call.made("cuMemHostAlloc", n, flags) for flags in (PORTABLE, 0)]
    back()
    for host in pinned:
        assert not driver.faults()
        call("cuMemcpyHtoDAsync_v2", memory, host, n, stream)
    assert "pinned for another card" in driver.faults()[0]
    call("cuStreamSynchronize", stream)
    for host in pinned:
        call("cuMemFreeHost", host)
    call("cuMemFree_v2", memory)


def test_events_and_kernels_of_another_card(driver: Stub, call: Calls) -> None:
    driver.library.cuLaunchKernel.argtypes = [c_void_p, *(ctypes.c_uint,) * 7, *(c_void_p,) * 3]
    stream = call.made("cuStreamCreate", NON_BLOCKING)
    event, kernel = call.made("cuEventCreate", NO_TIMING), call.made("cuModuleLoadData", b"null")
    call("cuEventRecord", event, stream)
    call("cuLaunchKernel", kernel, *(1,) * 6, 0, stream, None, None)
    assert not driver.faults()
    back = on_second(call)
    other = call.made("cuStreamCreate", NON_BLOCKING)
    call("cuEventRecord", event, other, error=400)
    call("cuLaunchKernel", kernel, *(1,) * 6, 0, other, None, None, error=400)
    call("cuLaunchKernel", kernel, *(1,) * 6, 0, stream, None, None, error=400)
    back()
    assert len(driver.faults()) == 3
    for size in ((1, 65536, 1), (1, 1, 65536)):
        call("cuLaunchKernel", kernel, *size, 1, 1, 1, 0, stream, None, None, error=1)
    more = (48 << 10) + 1
    call("cuLaunchKernel", kernel, *(1,) * 6, more, stream, None, None, error=1)
    for attribute, n_bytes in ((7, more), (8, (227 << 10) + 1)):
        call("cuFuncSetAttribute", kernel, attribute, n_bytes, error=1)
    call("cuFuncSetAttribute", kernel, 8, more)
    call("cuLaunchKernel", kernel, *(1,) * 6, more, stream, None, None)
    call("cuLaunchKernel", kernel, *(1,) * 6, more + 1, stream, None, None, error=1)
    call("cuStreamSynchronize", stream)
    call("cuModuleUnload", kernel)
    call("cuEventDestroy_v2", event)
    for handle in (kernel, event):
        call("cuModuleUnload" if handle is kernel else "cuEventDestroy_v2", handle, error=400)


@pytest.mark.parametrize("mode", [GLOBAL, RELAXED])
def test_what_a_capture_forbids(driver: Stub, call: Calls, mode: int) -> None:
    """A relaxed one leaves other streams and threads alone; on its own stream nothing is waited
    for, and only kernels are recorded."""
    stream, other = (call.made("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    event, graph, memory = call.made("cuEventCreate", NO_TIMING), c_void_p(), c_void_p()
    call("cuStreamBeginCapture_v2", stream, mode)
    refused = 0 if mode == RELAXED else 900
    call("cuMemAlloc_v2", byref(memory), ctypes.c_size_t(64), error=refused)
    call("cuStreamSynchronize", other, error=refused)
    assert bool(driver.faults()) == (mode == GLOBAL)
    n = len(driver.faults())
    call("cuStreamSynchronize", stream, error=900)
    call("cuStreamQuery", stream, error=900)
    call("cuEventRecord", event, stream, error=900)
    assert len(driver.faults()) > n
    call("cuStreamEndCapture", stream, byref(graph))
    call("cuGraphDestroy", graph)
    call("cuStreamSynchronize", stream)
    if mode == RELAXED:
        call("cuMemFree_v2", memory)


def test_pages_before_they_may_be_used(driver: Stub, call: Calls) -> None:
    driver.library.cuMemMap.argtypes = [c_void_p, *(ctypes.c_uint64,) * 2, c_void_p,
                                        ctypes.c_uint64]
    n, stream = ctypes.c_size_t(PAGE), call.made("cuStreamCreate", NON_BLOCKING)
    zero = ctypes.c_uint64(0)
    what, pages, at = _Pages(1, 0, 1, 0), c_void_p(), c_void_p()
    call("cuMemCreate", byref(pages), n, byref(_Pages(2, 0, 1, 0)), zero, error=1)
    call("cuMemCreate", byref(pages), n, byref(_Pages(1, 0, 0, 0)), zero, error=1)
    call("cuMemCreate", byref(pages), n, byref(what), zero)
    call("cuMemAddressReserve", byref(at), n, n, zero, zero)
    call("cuMemMap", c_void_p((at.value or 0) + PAGE), PAGE, 0, pages, 0, error=1)
    call("cuMemMap", at, PAGE, 0, pages, 0)
    for wrong in (_Access(1, 1, 3), _Access(1, 0, 1), _Access(0, 0, 3)):
        call("cuMemSetAccess", at, n, byref(wrong), ctypes.c_size_t(1), error=1)
    assert not driver.faults()
    call("cuMemsetD8Async", at, 0, n, stream)
    assert driver.faults() == ["a fill uses pages before cuMemSetAccess"]
    call("cuMemSetAccess", at, n, byref(_Access(1, 0, 3)), ctypes.c_size_t(1))
    call("cuStreamSynchronize", stream)
    call("cuMemAddressFree", at, ctypes.c_size_t(2 * PAGE), error=1)
    call("cuMemUnmap", at, n)
    call("cuMemRelease", pages)
    call("cuMemAddressFree", at, n)


def test_peers(driver: Stub, call: Calls) -> None:
    call("cuCtxEnablePeerAccess", c_void_p(1), 0, error=101)
    call("cuCtxEnablePeerAccess", c_void_p(2), 0)
    call("cuCtxEnablePeerAccess", c_void_p(2), 0, error=704)
    driver.set("peers", 0)
    call("cuCtxEnablePeerAccess", c_void_p(2), 0, error=217)


def test_streams_that_were_destroyed(driver: Stub, call: Calls) -> None:
    stream = call.made("cuStreamCreate", NON_BLOCKING)
    call("cuStreamDestroy_v2", stream)
    assert not driver.faults()
    call("cuStreamSynchronize", stream, error=400)
    assert "destroyed" in driver.faults()[0]
