"""The metal backend: the C family of kernels on Apple's graphics processors."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends.metal.backend import MetalBackend
    return MetalBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`. Devices of Metal are used only where they are named:
    the graphics processor of a Mac is also a device of wgpu, and would count twice."""
    return False
