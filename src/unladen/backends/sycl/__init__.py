"""The sycl backend: the C family of kernels through dpctl, which the extra ``sycl`` installs."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends.sycl.backend import SyclBackend
    return SyclBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`. Devices of SYCL are used only where they are named: a
    graphics processor is also a device of wgpu, and would count twice."""
    return False
