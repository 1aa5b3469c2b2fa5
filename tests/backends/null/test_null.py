"""Pretend devices keep honest accounts."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from unladen.backends.base import BackendOptions
from unladen.backends.null import create
from unladen.backends.null.backend import DEFAULT_MEMORY, MEMORY_VARIABLE, NullBackend
from unladen.errors import InvalidArgument, OutOfMemory


@pytest.fixture
def null() -> NullBackend:
    backend = create()
    assert isinstance(backend, NullBackend)
    return backend


def test_any_number_of_devices(null: NullBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    assert null.open("null:17", BackendOptions()).memory_bytes == DEFAULT_MEMORY
    monkeypatch.setenv(MEMORY_VARIABLE, "1000,2000")
    assert [null.open(f"null:{i}", BackendOptions()).memory_bytes for i in range(4)] == [
        1000, 2000, 2000, 2000]


@pytest.mark.parametrize("text", ["", "many", "1000,", "1e9"])
def test_no_list_of_bytes(null: NullBackend, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, text)
    with pytest.raises(InvalidArgument, match=MEMORY_VARIABLE):
        null.open("null", BackendOptions())


def test_every_byte_is_counted_and_given_back(null: NullBackend, rng: np.random.Generator) -> None:
    device = null.open("null:1", BackendOptions())
    sizes = [int(n) for n in rng.integers(0, 10_000, 20)]
    buffers = [null.alloc(device, n, "weights") for n in sizes]
    assert null.used_bytes(device.name) == sum(sizes)
    assert null.used_bytes("null:0") == 0
    del buffers[5:]
    gc.collect()
    assert null.used_bytes(device.name) == sum(sizes[:5])
    del buffers
    gc.collect()
    assert null.used_bytes(device.name) == 0


def test_full_is_full(null: NullBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1000")
    device = null.open("null", BackendOptions())
    kept = null.alloc(device, 600, "kv")
    with pytest.raises(OutOfMemory) as error:
        null.alloc(device, 401, "arena")
    assert (error.value.requested, error.value.free) == (401, 400)
    assert MEMORY_VARIABLE in error.value.hint
    assert null.alloc(device, 400, "arena").nbytes == 400
    assert null.used_bytes("null:0") == kept.nbytes
