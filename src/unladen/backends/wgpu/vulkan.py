"""Asks Vulkan how much memory graphics cards have and how much is free, which WebGPU doesn't say.

The structures are those of vulkan_core.h (Khronos, 1.1 and VK_EXT_memory_budget).
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

LIBRARIES = ("libvulkan.so.1", "vulkan-1.dll", "libvulkan.1.dylib")
"""Names of Vulkan's loader on Linux, Windows and macOS."""
VERSION = 1 << 22 | 1 << 12
"""Vulkan 1.1, the first version that reports budgets of memory."""
INSTANCE_INFO, MEMORY_PROPERTIES_2, BUDGET_PROPERTIES = 1, 1000059006, 1000237000
"""VkStructureType of the structures below."""
PROPERTIES_2, ID_PROPERTIES, PCI_PROPERTIES = 1000059001, 1000071004, 1000212000
"""The same for those that say which card a device is."""
DEVICE_LOCAL = 1
"""VK_MEMORY_HEAP_DEVICE_LOCAL_BIT: the heap is the device's own memory."""
MAX_TYPES, MAX_HEAPS = 32, 16
"""VK_MAX_MEMORY_TYPES and VK_MAX_MEMORY_HEAPS."""
PROPERTIES_BYTES = 4096
"""Room for VkPhysicalDeviceProperties, which has 824 bytes so far."""
BUDGET = b"VK_EXT_memory_budget"
"""The extension that says how much of a heap a process may have."""
PCI = b"VK_EXT_pci_bus_info"
"""The extension that says where a card is plugged in."""


@dataclass(frozen=True, slots=True)
class Card:
    """A Vulkan device.

    * ``vendor_id``, ``device_id``, ``name``: as WebGPU has them, too.
    * ``memory_bytes``: bytes of its own memory.
    * ``free_bytes``: how many of these are free for this process; all, if the driver doesn't say.
    * ``heap_bytes``, ``free_heap_bytes``: the same for all memory that it can use.
    * ``place``: where the card is plugged in, or else its UUID; the same for every driver of one
      card. Empty where the driver says neither.
    """

    vendor_id: int
    device_id: int
    name: str
    memory_bytes: int
    free_bytes: int
    heap_bytes: int = 0
    free_heap_bytes: int = 0
    place: bytes = b""


def cards() -> Sequence[Card]:
    """Every device, in the driver's order; none where Vulkan 1.1 is missing or fails."""
    vulkan = _load()
    if vulkan is None:
        return ()
    with _instance(vulkan) as instance:
        return [] if instance is None else [_card(vulkan, d) for d in _devices(vulkan, instance)]


def own_memory(heaps: Sequence[tuple[int, int]], budgets: Sequence[tuple[int, int]] | None
               ) -> tuple[int, int]:
    """(bytes, free bytes) of the largest heap that is the device's own memory, (0, 0) without one.

    ``heaps``: (size, flags) of each heap. ``budgets``: for each heap (bytes that the process may
    have, bytes that it has); None if the driver doesn't say.
    """
    own = [i for i, (_, flags) in enumerate(heaps) if flags & DEVICE_LOCAL]
    if not own:
        return 0, 0
    largest = max(own, key=lambda i: heaps[i][0])
    return heaps[largest][0], _free(heaps, budgets)[largest]


def all_memory(heaps: Sequence[tuple[int, int]], budgets: Sequence[tuple[int, int]] | None
               ) -> tuple[int, int]:
    """(bytes, free bytes) of all heaps together; see :func:`own_memory`."""
    return sum(size for size, _ in heaps), sum(_free(heaps, budgets))


def _free(heaps: Sequence[tuple[int, int]], budgets: Sequence[tuple[int, int]] | None) -> list[int]:
    """Free bytes of each heap."""
    if budgets is None:
        return [size for size, _ in heaps]
    # There may be budgets of heaps that don't exist.
    return [min(size, max(0, budget - used))
            for (size, _), (budget, used) in zip(heaps, budgets, strict=False)]


class _Application(ctypes.Structure):
    """VkApplicationInfo; its type is 0."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("version", ctypes.c_uint32), ("engine", ctypes.c_char_p),
                ("engine_version", ctypes.c_uint32), ("api_version", ctypes.c_uint32)]


class _InstanceInfo(ctypes.Structure):
    """VkInstanceCreateInfo."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p), ("flags", ctypes.c_uint32),
                ("application", ctypes.POINTER(_Application)), ("n_layers", ctypes.c_uint32),
                ("layers", ctypes.c_void_p), ("n_extensions", ctypes.c_uint32),
                ("extensions", ctypes.c_void_p)]


class _Extension(ctypes.Structure):
    """VkExtensionProperties."""

    _fields_ = [("name", ctypes.c_char * 256), ("version", ctypes.c_uint32)]


class _Type(ctypes.Structure):
    """VkMemoryType."""

    _fields_ = [("flags", ctypes.c_uint32), ("heap", ctypes.c_uint32)]


class _Heap(ctypes.Structure):
    """VkMemoryHeap."""

    _fields_ = [("size", ctypes.c_uint64), ("flags", ctypes.c_uint32)]


class _Budget(ctypes.Structure):
    """VkPhysicalDeviceMemoryBudgetPropertiesEXT."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p),
                ("budget", ctypes.c_uint64 * MAX_HEAPS), ("usage", ctypes.c_uint64 * MAX_HEAPS)]


class _Memory(ctypes.Structure):
    """VkPhysicalDeviceMemoryProperties2 with what it holds."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p), ("n_types", ctypes.c_uint32),
                ("types", _Type * MAX_TYPES), ("n_heaps", ctypes.c_uint32),
                ("heaps", _Heap * MAX_HEAPS)]


class _Properties(ctypes.Structure):
    """VkPhysicalDeviceProperties2."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p),
                ("raw", ctypes.c_uint64 * (PROPERTIES_BYTES // 8))]


class _Identity(ctypes.Structure):
    """VkPhysicalDeviceIDProperties."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p),
                ("device", ctypes.c_uint8 * 16), ("driver", ctypes.c_uint8 * 16),
                ("luid", ctypes.c_uint8 * 8), ("nodes", ctypes.c_uint32),
                ("has_luid", ctypes.c_uint32)]


class _Pci(ctypes.Structure):
    """VkPhysicalDevicePCIBusInfoPropertiesEXT: domain, bus, device and function."""

    _fields_ = [("type", ctypes.c_int32), ("next", ctypes.c_void_p),
                ("address", ctypes.c_uint32 * 4)]


def _load() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue  # no library has this name
        if hasattr(library, "vkGetPhysicalDeviceMemoryProperties2"):
            return library
    return None


@contextlib.contextmanager
def _instance(vulkan: ctypes.CDLL) -> Iterator[ctypes.c_void_p | None]:
    application = _Application(api_version=VERSION)
    info = _InstanceInfo(type=INSTANCE_INFO, application=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)) != 0:
        yield None
        return
    try:
        yield instance
    finally:
        vulkan.vkDestroyInstance(instance, None)


def _devices(vulkan: ctypes.CDLL, instance: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    found = _listed(lambda n, items: vulkan.vkEnumeratePhysicalDevices(instance, n, items),
                    ctypes.c_void_p)
    return [ctypes.c_void_p(d) for d in found]


def _listed(call: Any, kind: Any) -> list[Any]:
    """The items that a function of Vulkan enumerates: a first call asks for their number, a second
    one for the items. Empty where a call fails."""
    n = ctypes.c_uint32(0)
    if call(ctypes.byref(n), None) != 0:
        return []
    items = (kind * n.value)()
    return list(items[:n.value]) if call(ctypes.byref(n), items) == 0 else []


def _card(vulkan: ctypes.CDLL, device: ctypes.c_void_p) -> Card:
    raw = ctypes.create_string_buffer(PROPERTIES_BYTES)
    vulkan.vkGetPhysicalDeviceProperties(device, raw)
    # VkPhysicalDeviceProperties: apiVersion, driverVersion, vendorID, deviceID, deviceType,
    # deviceName[256].
    version, _, vendor, number, _, name = struct.unpack_from("=IIIIi256s", raw)
    label = name.partition(b"\0")[0].decode("utf-8", "replace")
    if version < VERSION:
        return Card(vendor, number, label, 0, 0)
    extensions = _listed(lambda n, items: vulkan.vkEnumerateDeviceExtensionProperties(
        device, None, n, items), _Extension)
    names = {e.name for e in extensions}
    memory, budget = _Memory(type=MEMORY_PROPERTIES_2), _Budget(type=BUDGET_PROPERTIES)
    has_budget = BUDGET in names
    if has_budget:
        memory.next = ctypes.cast(ctypes.pointer(budget), ctypes.c_void_p)
    vulkan.vkGetPhysicalDeviceMemoryProperties2(device, ctypes.byref(memory))
    heaps = [(h.size, h.flags) for h in memory.heaps[:memory.n_heaps]]
    pairs = list(zip(budget.budget, budget.usage, strict=True)) if has_budget else None
    return Card(vendor, number, label, *own_memory(heaps, pairs), *all_memory(heaps, pairs),
                _place(vulkan, device, has_address=PCI in names))


def _place(vulkan: ctypes.CDLL, device: ctypes.c_void_p, *, has_address: bool) -> bytes:
    """See :attr:`Card.place`. Makers' drivers agree on the address, and not always on the UUID."""
    identity, pci = _Identity(type=ID_PROPERTIES), _Pci(type=PCI_PROPERTIES)
    asked = pci if has_address else identity
    properties = _Properties(type=PROPERTIES_2,
                             next=ctypes.cast(ctypes.pointer(asked), ctypes.c_void_p))
    vulkan.vkGetPhysicalDeviceProperties2(device, ctypes.byref(properties))
    said = bytes(pci.address if has_address else identity.device)
    return said if has_address or any(said) else b""
