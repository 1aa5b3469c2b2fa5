"""The hip backend: the C family of kernels through AMD's HIP and its run-time compiler."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
    from unladen.backends.hip.driver import HIP
    return CudaLikeBackend(HIP)


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`. Devices of HIP are used only where they are named: a
    card is also a device of wgpu, and would count twice."""
    return False
