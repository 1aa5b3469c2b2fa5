"""The cuda backend: the C family of kernels through NVIDIA's driver and its run-time compiler."""

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
    from unladen.backends.cuda.driver import CUDA
    return CudaLikeBackend(CUDA)


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`. Devices of CUDA are used only where they are named: a
    card is also a device of wgpu, and would count twice."""
    return False
