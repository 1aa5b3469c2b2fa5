"""Which drivers for graphics processors this machine has, and what they find.

Each function asks the driver's own library. A library that is missing, can't be loaded or refuses
to answer counts as absent, so no function fails for that. Whether unladen has a backend for a
driver is another question: :func:`unladen.devices` lists the devices that it can use, and
``unladen doctor`` lists both.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from unladen.backends._gpu.loading import load_library
from unladen.parameters.kinds import INT32_MAX, Whole

CUDA = ("libcuda.so.1", "nvcuda.dll")
NVML = ("libnvidia-ml.so.1", "nvml.dll")
HIP = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
       "amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")
VULKAN = ("libvulkan.so.1", "vulkan-1.dll", "libvulkan.1.dylib", "libMoltenVK.dylib")
METAL = ("/System/Library/Frameworks/Metal.framework/Metal",)
CORE_FOUNDATION = ("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation",)

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Linux's folder of the devices on the PCI bus."""
MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
"""Makers of graphics processors by their number on the PCI bus. Display adapters of other makers,
as on servers' boards and in virtual machines, can't compute."""
DISPLAY, ACCELERATOR = "0x03", "0x12"
"""The first digits of the PCI classes of graphics processors."""

PCI_ID_BYTES = 32
"""Bytes of the text with a device's place on the PCI bus."""
_VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO = 1


def cards() -> list[str]:
    """The maker of each graphics processor in this machine. On Linux they are those on the PCI bus,
    also without a driver, and those of a maker without any there whose driver shows some, as in
    Windows' Linux and on boards; elsewhere those that a driver shows."""
    if sys.platform == "darwin":
        return ["Apple"] if metal_available() else []
    found = []
    if sys.platform == "linux":
        found = [maker for device in _listed(PCI_DEVICES) if (maker := _maker(device))]
    if "NVIDIA" not in found:
        found += ["NVIDIA"] * cuda_device_count()
    if "AMD" not in found and rocm_available():
        found.append("AMD")
    return found


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # a system without the bus, or one that hides it


def _maker(device: Path) -> str:
    """The maker of the graphics processor ``device``; "" for another kind of device."""
    try:
        kind, number = ((device / name).read_text().strip() for name in ("class", "vendor"))
    except OSError:
        return ""  # the device was just removed
    return MAKERS.get(number, "") if kind.startswith((DISPLAY, ACCELERATOR)) else ""


def cuda_available() -> bool:
    """Whether NVIDIA's driver is there and shows at least one device to this process."""
    return cuda_device_count() > 0


def cuda_device_count() -> int:
    """Devices that NVIDIA's driver shows to this process (``CUDA_VISIBLE_DEVICES`` counts)."""
    cuda = _cuda()
    count = ctypes.c_int(0)
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def cuda_memory_info(device: int = 0) -> tuple[int, int]:
    """(used, total) bytes of a device, used by all processes; (0, 0) where that isn't known.

    ``device``: its number. NVML counts the bytes, which takes no memory on the device. Raises
    :class:`InvalidArgument` for anything but a number.
    """
    device = Whole(-INT32_MAX).of("device", device)
    cuda, nvml = _cuda(), load_library(
        NVML, "nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetHandleByPciBusId_v2",
        "nvmlDeviceGetMemoryInfo")
    if cuda is None or nvml is None or not 0 <= device < cuda_device_count():
        return 0, 0
    # The two libraries number devices differently, so NVML gets the device's place on the PCI bus.
    handle, place = ctypes.c_int(0), ctypes.create_string_buffer(PCI_ID_BYTES)
    if (cuda.cuDeviceGet(ctypes.byref(handle), device) != 0
            or cuda.cuDeviceGetPCIBusId(place, PCI_ID_BYTES, handle) != 0
            or nvml.nvmlInit_v2() != 0):
        return 0, 0
    try:
        found, memory = ctypes.c_void_p(), _NvmlMemory()
        if (nvml.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(found)) != 0
                or nvml.nvmlDeviceGetMemoryInfo(found, ctypes.byref(memory)) != 0):
            return 0, 0
        return memory.used, memory.total
    finally:
        nvml.nvmlShutdown()


def rocm_available() -> bool:
    """Whether AMD's HIP runtime is there and shows at least one device to this process."""
    hip, count = load_library(HIP, "hipGetDeviceCount"), ctypes.c_int(0)
    return hip is not None and hip.hipGetDeviceCount(ctypes.byref(count)) == 0 and count.value > 0


def metal_available() -> bool:
    """Whether this is a Mac with a device that Metal can use."""
    if sys.platform != "darwin":
        return False
    metal = load_library(METAL, "MTLCopyAllDevices")
    foundation = load_library(CORE_FOUNDATION, "CFArrayGetCount", "CFRelease")
    if metal is None or foundation is None:
        return False
    # MTLCreateSystemDefaultDevice finds none where CoreGraphics isn't loaded.
    metal.MTLCopyAllDevices.restype = ctypes.c_void_p
    foundation.CFArrayGetCount.restype = ctypes.c_long
    devices = ctypes.c_void_p(metal.MTLCopyAllDevices())
    if not devices:
        return False
    try:
        return bool(foundation.CFArrayGetCount(devices))
    finally:
        foundation.CFRelease(devices)


def vulkan_available() -> bool:
    """Whether Vulkan's loader is there and one of its drivers has a device. Software devices, as
    that of Mesa's lavapipe, count too."""
    vulkan = load_library(VULKAN, "vkCreateInstance", "vkEnumeratePhysicalDevices",
                          "vkDestroyInstance")
    instance = ctypes.c_void_p()
    if vulkan is None or vulkan.vkCreateInstance(ctypes.byref(_VkInstanceCreateInfo()), None,
                                                 ctypes.byref(instance)) != 0:
        return False
    count = ctypes.c_uint32(0)
    try:
        answer = vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        return bool(answer == 0 and count.value)
    finally:
        vulkan.vkDestroyInstance(instance, None)


class _NvmlMemory(ctypes.Structure):
    """nvmlMemory_t of nvml.h."""

    _fields_ = [("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]


class _VkInstanceCreateInfo(ctypes.Structure):
    """VkInstanceCreateInfo of vulkan_core.h, without layers and extensions."""

    _fields_ = [("sType", ctypes.c_int32), ("pNext", ctypes.c_void_p), ("flags", ctypes.c_uint32),
                ("pApplicationInfo", ctypes.c_void_p), ("n_layers", ctypes.c_uint32),
                ("layers", ctypes.c_void_p), ("n_extensions", ctypes.c_uint32),
                ("extensions", ctypes.c_void_p)]

    def __init__(self) -> None:
        super().__init__(sType=_VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO)


def _cuda() -> ctypes.CDLL | None:
    cuda = load_library(CUDA, "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetPCIBusId")
    return cuda if cuda is not None and cuda.cuInit(0) == 0 else None
