"""The wgpu backend: WGSL through wgpu-py, on Vulkan, Metal and D3D12."""

from unladen.backends.base import Backend
from unladen.backends.wgpu.backend import WgpuBackend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    return WgpuBackend()
