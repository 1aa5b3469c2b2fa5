"""A seed for tests that draw random tools, templates and texts."""

from __future__ import annotations

import secrets

import pytest


@pytest.fixture(scope="module")
def seed() -> int:
    """A new seed for each run, printed to repeat a failure."""
    made = secrets.randbits(32)
    print(f"seed: {made}")
    return made
