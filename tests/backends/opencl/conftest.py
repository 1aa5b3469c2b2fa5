"""Skips everything here where there is nothing to run on; the device stays open meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unladen.backends import BackendOptions, Hold, backend_of


@pytest.fixture(autouse=True, scope="session")
def _device() -> Iterator[None]:
    backend = backend_of("opencl")
    if not backend.devices():
        pytest.skip(backend.why_none())
    options = BackendOptions()
    hold = Hold([backend.open("opencl:0", options)], options)
    yield
    hold.release()
