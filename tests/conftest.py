"""Fixtures that every test may use."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared test data in {SHARED}")
    return SHARED


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh randomness for each run; the seed is printed, so a failure can be replayed."""
    seed = secrets.randbits(32)
    print(f"rng seed: {seed}")
    return np.random.default_rng(seed)
