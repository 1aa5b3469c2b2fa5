"""The null backend: computes nothing, on any number of pretend devices; for plans and tests."""

from unladen.backends.base import Backend
from unladen.backends.null.backend import NullBackend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    return NullBackend()
