"""The wgpu backend: WGSL through wgpu-py, on Vulkan, Metal and D3D12."""

from unladen.backends.base import Backend
from unladen.backends.wgpu.adapters import may_have_hardware


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Most machines need none of it.
    from unladen.backends.wgpu.backend import WgpuBackend
    return WgpuBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`."""
    return may_have_hardware()
