"""Skips everything here where there is nothing to run on."""

from __future__ import annotations

import pytest

from unladen.backends import backend_of


@pytest.fixture(autouse=True, scope="session")
def _adapter() -> None:
    backend = backend_of("wgpu")
    if not backend.devices():
        pytest.skip(backend.why_none())
