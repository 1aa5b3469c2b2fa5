"""The opencl backend: the C family of kernels through the system's OpenCL drivers."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends.opencl.backend import OpenClBackend
    return OpenClBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`. Devices of OpenCL are used only where they are named:
    a graphics processor is also a device of wgpu, and would count twice."""
    return False
