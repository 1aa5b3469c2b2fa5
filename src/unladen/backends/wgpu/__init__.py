"""The wgpu backend: WGSL through wgpu-py, on Vulkan, Metal and D3D12."""

from unladen.backends.base import Backend
from unladen.backends.wgpu import adapters


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    # Imported here, since most machines never use this backend.
    from unladen.backends.wgpu.backend import WgpuBackend
    return WgpuBackend()


def has_hardware() -> bool:
    """See :func:`unladen.backends.registry`."""
    return adapters.may_have_hardware()
