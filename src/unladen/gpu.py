"""Which drivers for graphics processors this machine has, and what they find.

Each function asks the driver's own library. A library that is missing, can't be loaded or refuses
to answer counts as absent, so no function fails for that. Whether unladen has a backend for a
driver is another question: :func:`unladen.devices` lists the devices that it can use, and
``unladen doctor`` lists both.
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
