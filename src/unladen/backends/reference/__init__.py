"""The reference backend: runs every op by its definition, in NumPy with float64."""

from unladen.backends.base import Backend
from unladen.backends.reference.backend import ReferenceBackend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    return ReferenceBackend()
