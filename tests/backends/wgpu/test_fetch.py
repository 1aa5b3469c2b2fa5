"""Results that are read while the device goes on."""

from __future__ import annotations

import numpy as np
import pytest

from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.backends.wgpu import fetch


class Interrupted(dict[int, int]):
    """Raises an interrupt in place of the first status."""

    def __setitem__(self, key: int, status: int) -> None:
        if status and self.pop(0, 0):
            raise KeyboardInterrupt
        super().__setitem__(key, status)


def test_an_interrupt_inside_the_callback_is_raised_and_nothing_is_lost(
        rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_of("wgpu")
    device = backend.open("wgpu:0", BackendOptions())
    data = rng.integers(0, 256, 64, np.uint8)
    buffer = backend.alloc(device, 64, "arena")
    backend.write(buffer, data)
    monkeypatch.setattr(fetch._mapping(), "told", Interrupted({0: 1}))
    result = backend.fetch(buffer, 64)
    with pytest.raises(KeyboardInterrupt):
        result()
    for _ in range(2):
        np.testing.assert_array_equal(result(), data)


def test_an_interrupt_before_the_last_result_is_unmapped(
        rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next fetch through the same memory unmaps it: work that used a mapped buffer would end
    the process."""
    backend = backend_of("wgpu")
    device = backend.open("wgpu:0", BackendOptions())
    data = rng.integers(0, 256, 64, np.uint8)
    buffer, staging = backend.alloc(device, 64, "arena"), backend.alloc(device, 64, "staging")
    backend.write(buffer, data)
    backend.fetch(buffer, 64, staging=staging)()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "end_mapping", interrupted)
        with pytest.raises(KeyboardInterrupt):
            backend.fetch(buffer, 64, staging=staging)
    np.testing.assert_array_equal(backend.fetch(buffer, 64, staging=staging)(), data)
