"""Memory of the host."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from unladen.backends import _host
from unladen.backends._host import HostBuffer, alloc_host
from unladen.backends.base import Device
from unladen.backends.cpu import CpuBackend
from unladen.errors import OutOfMemory

DEVICE = Device("cpu:0", "", 0, is_host=True)


@pytest.mark.parametrize("huge_pages", [False, True])
def test_memory_is_aligned_zeroed_and_writable(huge_pages: bool) -> None:
    buffer = alloc_host(DEVICE, 12345, huge_pages=huge_pages)
    assert buffer.nbytes == 12345
    assert buffer.address % 4096 == 0
    assert not buffer.data.any()
    buffer.data[:] = 7
    assert buffer.data.sum() == 7 * 12345


def test_more_than_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "free_host_bytes", lambda: 1000)
    assert alloc_host(DEVICE, 1000).nbytes == 1000
    with pytest.raises(OutOfMemory) as error:
        alloc_host(DEVICE, 1001)
    assert (error.value.requested, error.value.free, error.value.device) == (1001, 1000, "cpu:0")
    assert "context_size" in error.value.hint


def test_memory_goes_with_its_last_view() -> None:
    buffer = alloc_host(DEVICE, 1 << 20)
    memory = weakref.ref(buffer.data)
    view = buffer.data[5:10]
    del buffer
    gc.collect()
    view[:] = 1
    assert view.sum() == 5
    del view
    gc.collect()
    assert memory() is None


def test_a_wrapped_array_stays_alive(rng: np.random.Generator) -> None:
    data = rng.integers(0, 256, 100, np.uint8)
    kept = data.copy()
    buffer = CpuBackend().wrap(DEVICE, data)
    del data
    gc.collect()
    assert isinstance(buffer, HostBuffer)
    assert np.array_equal(buffer.data, kept)


def test_writes_stay_inside() -> None:
    memory, buffer = CpuBackend(), alloc_host(DEVICE, 10)
    with pytest.raises(ValueError, match="broadcast"):
        memory.write(buffer, np.ones(4, np.uint8), 8)


def test_sizes_of_this_machine() -> None:
    assert 0 < _host.free_host_bytes() <= _host.total_host_bytes()
