"""The ggml backend: ops of a libggml that is on the machine, on any device that it drives."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends.ggml.backend import GgmlBackend
    return GgmlBackend()


def has_hardware() -> bool:
    """False: its devices are used where they are named. See
    :func:`unladen.backends.registry`."""
    return False
