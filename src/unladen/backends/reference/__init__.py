"""The reference backend: NumPy, float64 inside, obviously right; runs every op."""

from unladen.backends.base import Backend
from unladen.backends.reference.backend import ReferenceBackend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    return ReferenceBackend()
