"""The CPU backend: a native executor with kernels for several instruction-set levels."""

from unladen.backends.base import Backend
from unladen.backends.cpu.backend import CpuBackend


def create() -> Backend:
    """Called by the scan of ``backends/``."""
    return CpuBackend()
