"""Which drivers for graphics processors this machine has, and what they find.

Each function asks the driver's own library, and no answer of it is an error: what isn't there,
isn't loaded or refuses to answer counts as absent. Whether unladen has a backend for a driver is
another question: :func:`unladen.devices` lists what it can use, ``unladen doctor`` both.
"""

from unladen.backends._gpu.drivers import (
    cards,
    cuda_available,
    cuda_device_count,
    cuda_memory_info,
    metal_available,
    rocm_available,
    vulkan_available,
)

__all__ = ["cards", "cuda_available", "cuda_device_count", "cuda_memory_info", "metal_available",
           "rocm_available", "vulkan_available"]
