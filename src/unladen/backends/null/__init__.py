"""The null backend: computes nothing, on any number of pretend devices; for plans and tests."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    from unladen.backends.null.backend import NullBackend
    return NullBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`."""
    return False
