"""Finds the devices of Metal, and says why there are none or why one can't be used."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.numbers import numbered
from unladen.backends._gpu.target import WORKGROUP_BYTES
from unladen.backends.base import Device
from unladen.backends.metal import objc
from unladen.backends.metal.objc import Object, send, text
from unladen.errors import BackendNotInitialised

LONGEST_BINDING = (1 << 32) - 256
"""The most bytes that a kernel binds at once: addresses in a binding have 32 bits."""
APPLE7, MAC2 = 1007, 2002
"""Families of MTLGPUFamily, one of which a device needs: the first ones that add over a SIMD
group."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device. ``refused``: why it can't be used, "" if it can."""

    object: Object
    name: str
    memory_bytes: int
    max_buffer: int
    refused: str


@functools.cache
def found() -> Sequence[Found]:
    """The devices of this machine."""
    there = objc.libraries()
    if there is None:
        return ()
    objc.PROCESS.begin()
    with objc.pool():
        array = Object(there.metal.MTLCopyAllDevices())
        return tuple(_found(objc.retained(array.send("objectAtIndex:", i)))
                     for i in range(array.send("count")))


def _found(device: Object) -> Found:
    return Found(device, text(device.send("name")), device.send("recommendedMaxWorkingSetSize"),
                 device.send("maxBufferLength") // 256 * 256, _refused(device))


def _refused(device: Object) -> str:
    if not device.send("hasUnifiedMemory"):
        return "its memory isn't the processor's, as this backend needs: use wgpu:0"
    if not (device.send("supportsFamily:", APPLE7) or device.send("supportsFamily:", MAC2)):
        return "it can't add over a SIMD group: use wgpu:0"
    if (n := device.send("maxThreadgroupMemoryLength")) < WORKGROUP_BYTES:
        return f"its workgroups share {n} bytes, and {WORKGROUP_BYTES} are needed"
    return ""


def usable() -> Sequence[Found]:
    """The devices that kernels can run on."""
    return [d for d in found() if not d.refused]


def why_none() -> str:
    """Why :func:`usable` is empty and what to do about it; "" if it isn't empty."""
    if objc.libraries() is None:
        if sys.platform == "darwin":
            return "this macOS has no Metal: update to macOS 12 or newer, or use wgpu:0"
        return "Metal is part of macOS, and this is another system: use wgpu, cuda or opencl"
    if usable():
        return ""
    if found():
        return "; ".join(f"{d.name} can't be used: {d.refused}" for d in found())
    return "Metal is here and lists no device: a session without a graphics processor has none"


def found_of(number: int) -> Found:
    """What device ``number`` runs on. Numbers beyond the last device start again at the first.
    Raises :class:`BackendNotInitialised`."""
    here = usable()
    if not here:
        raise BackendNotInitialised(f"metal:{number} is not present", hint=why_none())
    return numbered("metal", here, number)


def device_of(each: Found, name: str, used: frozenset[str]) -> Device:
    """The device called ``name`` that runs on ``each`` with abilities ``used``."""
    return Device(
        name, f"{each.name} (Metal)", each.memory_bytes,
        features=(("subgroups", "subgroups" in used),),
        max_binding_bytes=min(each.max_buffer, LONGEST_BINDING), commits_host_memory=True,
        maps_files=True, fusions=FUSIONS, runs_ahead=True)


def allocated_bytes(each: Found) -> int:
    """Bytes that this process has allocated on the device."""
    n: int = send(each.object.address, "currentAllocatedSize")
    return n
