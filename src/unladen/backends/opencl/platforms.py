"""Finds the devices of all OpenCL drivers, and says why one can't be used."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from dataclasses import dataclass
from types import MappingProxyType

from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.numbers import numbered
from unladen.backends._gpu.target import WORKGROUP_BYTES
from unladen.backends._host import total_host_bytes
from unladen.backends.base import Device
from unladen.backends.opencl import driver, features
from unladen.backends.opencl.driver import number_of, text_of
from unladen.backends.opencl.recording import FEATURE, can_record
from unladen.errors import BackendNotInitialised

THREADS = 256
"""The most threads of a workgroup that kernels have."""
LONGEST_BINDING = (1 << 32) - 256
"""The most bytes that a kernel binds at once: addresses in a binding have 32 bits."""
SOFTWARE_SPEED = 1e10
"""Bytes and operations per second of a driver for the processor. The CPU backend's kernels are
faster than this, so nothing is placed there for speed."""
KINDS: Mapping[int, str] = MappingProxyType({
    driver.DEVICE_TYPE_GPU: "GPU", driver.DEVICE_TYPE_ACCELERATOR: "accelerator",
    driver.DEVICE_TYPE_CPU: "software"})
"""The kinds of devices that can be used, the fastest first."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device of a driver.

    * ``workgroup_bytes``: the memory of a workgroup.
    * ``version``: the newest version of OpenCL C that it takes.
    * ``divides_exactly``: whether it can round quotients and roots correctly.
    * ``refused``: why it can't be used, "" if it can.
    """

    id: c_void_p
    platform_id: c_void_p
    name: str
    platform: str
    driver_version: str
    kind: str
    memory_bytes: int
    max_buffer: int
    workgroup_bytes: int
    shares_host_memory: bool
    version: tuple[int, int]
    divides_exactly: bool
    available: frozenset[str]
    refused: str


@functools.cache
def found() -> Sequence[Found]:
    """The devices of all drivers, the fastest kinds first."""
    if driver.library() is None:
        return ()
    driver.PROCESS.begin()
    each = [_found(platform, device)
            for platform in driver.listed("clGetPlatformIDs")
            for device in driver.listed("clGetDeviceIDs", platform, driver.DEVICE_TYPE_ALL)]
    order = [*KINDS.values(), "other"]
    return tuple(sorted(each, key=lambda d: order.index(d.kind)))


def usable() -> Sequence[Found]:
    """The devices that kernels can run on."""
    return [d for d in found() if not d.refused]


def _found(platform: c_void_p, device: c_void_p) -> Found:
    kind = next((name for bit, name in KINDS.items()
                 if number_of(device, driver.DEVICE_TYPE) & bit), "other")
    version = _language(device)
    largest = number_of(device, driver.DEVICE_MAX_MEM_ALLOC_SIZE)
    names = [*text_of("clGetDeviceInfo", device, driver.DEVICE_EXTENSIONS).split(),
             *(name for name, _ in driver.named_versions(device,
                                                         driver.DEVICE_OPENCL_C_FEATURES))]
    there = features.available(names, version) - (set() if can_record(device) else {FEATURE})
    shares = kind == "software" or bool(number_of(device, driver.DEVICE_HOST_UNIFIED_MEMORY))
    return Found(
        device, platform, text_of("clGetDeviceInfo", device, driver.DEVICE_NAME),
        text_of("clGetPlatformInfo", platform, driver.PLATFORM_NAME),
        text_of("clGetDeviceInfo", device, driver.DRIVER_VERSION), kind,
        number_of(device, driver.DEVICE_GLOBAL_MEM_SIZE), largest // 256 * 256,
        number_of(device, driver.DEVICE_LOCAL_MEM_SIZE), shares, version,
        bool(number_of(device, driver.DEVICE_SINGLE_FP_CONFIG) & driver.CORRECTLY_ROUNDED),
        there, _refused(device, version))


def _language(device: c_void_p) -> tuple[int, int]:
    """The newest version of OpenCL C that the device's compiler takes. A device of OpenCL 3.0 lists
    all, since the plain answer may be an older one: often 1.2, where 2.0 isn't taken."""
    plain = _version(text_of("clGetDeviceInfo", device, driver.DEVICE_OPENCL_C_VERSION))
    if _version(text_of("clGetDeviceInfo", device, driver.DEVICE_VERSION)) < (3, 0):
        return plain
    listed = driver.named_versions(device, driver.DEVICE_OPENCL_C_ALL_VERSIONS)
    return max([plain, *(version for _, version in listed)])


def _version(text: str) -> tuple[int, int]:
    """The first version in ``text``; (0, 0) where there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _refused(device: c_void_p, version: tuple[int, int]) -> str:
    if not number_of(device, driver.DEVICE_AVAILABLE):
        return "its driver says that it isn't available: see whether the card works at all"
    if not number_of(device, driver.DEVICE_COMPILER_AVAILABLE):
        return "its driver has no compiler: install the maker's full driver"
    if not number_of(device, driver.DEVICE_ENDIAN_LITTLE):
        return "it stores numbers with the highest byte first, unlike model files"
    if version < (1, 2):
        return f"it takes OpenCL C {version[0]}.{version[1]}, and 1.2 is needed: update the driver"
    if (n := number_of(device, driver.DEVICE_MAX_WORK_GROUP_SIZE)) < THREADS:
        return f"its workgroups have at most {n} threads, and {THREADS} are needed"
    if (n := number_of(device, driver.DEVICE_LOCAL_MEM_SIZE)) < WORKGROUP_BYTES:
        return f"its workgroups share {n} bytes, and {WORKGROUP_BYTES} are needed"
    return ""


def why_none() -> str:
    """Why :func:`usable` is empty and what to do about it; "" if it isn't empty."""
    if driver.library() is None:
        return f"no OpenCL library was found: {driver.INSTALL}"
    if usable():
        return ""
    if found():
        return "; ".join(f"{d.name} ({d.platform}) can't be used: {d.refused}" for d in found())
    return f"OpenCL is here, but no driver with a device: {driver.INSTALL}"


def found_of(number: int) -> Found:
    """What device ``number`` runs on. Numbers beyond the last device start again at the first, so
    that one can be several devices. Raises :class:`BackendNotInitialised`."""
    here = usable()
    if not here:
        raise BackendNotInitialised(f"opencl:{number} is not present", hint=why_none())
    return numbered("opencl", here, number)


def device_of(each: Found, name: str) -> Device:
    """The device called ``name`` that runs on ``each``."""
    speed = SOFTWARE_SPEED if each.kind == "software" else 0.0
    used = features.chosen(each.available, each.name)
    return Device(
        name, f"{each.name} ({each.platform}, {each.kind})",
        total_host_bytes() if each.shares_host_memory else each.memory_bytes, speed, speed,
        features=tuple((f, f in used) for f in features.WANTED),
        max_binding_bytes=min(each.max_buffer, LONGEST_BINDING),
        commits_host_memory=each.shares_host_memory, fusions=FUSIONS, runs_ahead=True,
        writes_ahead=True, is_software=each.kind == "software")
