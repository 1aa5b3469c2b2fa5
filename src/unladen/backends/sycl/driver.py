"""dpctl, its devices, and why one can't be used."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from unladen.backends._gpu import abilities, forks
from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.numbers import numbered
from unladen.backends._gpu.target import WORKGROUP_BYTES
from unladen.backends._host import total_host_bytes
from unladen.backends.base import Device
from unladen.errors import BackendNotInitialised, DeviceLost, UnladenError

INSTALL = "pip install 'unladen[sycl]' (900 MB)"
"""The hint where dpctl is missing."""
FOR_PROCESSORS = (
    "for processors pip install intel-opencl-rt intel-cmplr-lib-rt, write "
    f"{sys.prefix}/lib/libintelocl.so into a file intel.icd, and set OCL_ICD_VENDORS to the folder "
    f"of that file and LD_LIBRARY_PATH to {sys.prefix}/lib")
"""How Intel's runtime for processors is installed. The file of this kind in its wheel names a path
of another machine."""
VARIABLE = "UNLADEN_SYCL_FEATURES"
"""The environment variable with the names of features to use, with commas between them, or "none".
If it isn't set, kernels use what the device has."""
THREADS = 256
"""The most threads of a workgroup that kernels have."""
LONGEST_BINDING = (1 << 32) - 256
"""The most bytes that a kernel binds at once: addresses in a binding have 32 bits."""
SOFTWARE_SPEED = 1e10
"""Bytes and operations per second of a processor. The CPU backend's kernels are faster than this,
so nothing is placed there for speed."""
PROBES: Mapping[str, str] = MappingProxyType({
    "subgroups": "y[0] = sub_group_reduce_add(1.0f);",
    "int_dot": "y[0] = dot_acc_sat_4x8packed_ss_int(1u, 1u, 1);"})
"""For each ability, what a device's compiler takes if it has the ability: SYCL can't tell."""
OPTIONS = "-w -cl-std=CL3.0"
"""Options of the compiler."""


PROCESS: Final = forks.Process("SYCL")
"""The process that asked for the devices first."""


@functools.cache
def dpctl() -> Any:
    """The package, or None where it isn't installed or can't be loaded."""
    if importlib.util.find_spec("dpctl") is None:
        return None
    try:
        for module in ("dpctl.memory", "dpctl.program"):
            importlib.import_module(module)
    except (ImportError, OSError):
        return None
    return importlib.import_module("dpctl")


@dataclass(frozen=True, slots=True)
class Found:
    """A device of SYCL. ``refused``: why it can't be used, "" if it can."""

    device: Any
    name: str
    filter: str
    is_software: bool
    memory_bytes: int
    max_buffer: int
    available: frozenset[str]
    refused: str


@functools.cache
def found() -> Sequence[Found]:
    """The devices of this machine, graphics processors first."""
    if dpctl() is None:
        return ()
    PROCESS.begin()
    each = [_found(device) for device in dpctl().get_devices()]
    return tuple(sorted(each, key=lambda d: d.is_software))


def _found(device: Any) -> Found:
    refused = _refused(device)
    return Found(device, str(device.name).strip(), device.filter_string, bool(device.is_cpu),
                 device.global_mem_size, device.max_mem_alloc_size // 256 * 256,
                 frozenset() if refused else _available(device), refused)


def _refused(device: Any) -> str:
    if device.backend.name != "opencl":
        return (f"dpctl compiles OpenCL C only for devices of OpenCL, and this is one of "
                f"{device.backend.name}: name it with opencl in place of sycl, or use wgpu")
    if not device.has_aspect_usm_device_allocations:
        return "it has no memory that SYCL allocates by address"
    if (n := device.max_work_group_size) < THREADS:
        return f"its workgroups have at most {n} threads, and {THREADS} are needed"
    if (n := device.local_mem_size) < WORKGROUP_BYTES:
        return f"its workgroups share {n} bytes, and {WORKGROUP_BYTES} are needed"
    return ""


def _available(device: Any) -> frozenset[str]:
    """The abilities whose text the device's compiler takes."""
    queue, names = dpctl().SyclQueue(device), set()
    for name, line in PROBES.items():
        text = f"__kernel void probe(__global float *y) {{ {line} }}"
        try:
            dpctl().program.create_program_from_source(queue, text, OPTIONS)
        except dpctl().program.SyclProgramCompilationError:
            continue  # the ability is missing
        names.add(name)
    return frozenset(names)


def usable() -> Sequence[Found]:
    """The devices that kernels can run on."""
    return [d for d in found() if not d.refused]


def why_none() -> str:
    """Why :func:`usable` is empty and what to do about it; "" if it isn't empty."""
    if dpctl() is None:
        if importlib.util.find_spec("dpctl") is None:
            return f"dpctl isn't installed: {INSTALL}"
        return ("dpctl is installed and can't be loaded: see what `python -c 'import dpctl'` says, "
                f"or install it anew: {INSTALL}")
    if usable():
        return ""
    if found():
        return "; ".join(f"{d.name} ({d.filter}) can't be used: {d.refused}" for d in found())
    return ("dpctl finds no device: install the maker's OpenCL driver, for Intel's graphics "
            f"processors intel-opencl-icd; {FOR_PROCESSORS}")


def found_of(number: int) -> Found:
    """What device ``number`` runs on. Numbers beyond the last device start again at the first.
    Raises :class:`BackendNotInitialised`."""
    here = usable()
    if not here:
        raise BackendNotInitialised(f"sycl:{number} is not present", hint=why_none())
    return numbered("sycl", here, number)


def chosen(there: frozenset[str], device: str) -> frozenset[str]:
    """The abilities that kernels use of ``there``, those of ``device``. Raises
    :class:`InvalidArgument` where the environment asks for one that the device lacks."""
    return abilities.chosen(VARIABLE, there, device, known=PROBES)


def device_of(each: Found, name: str) -> Device:
    """The device called ``name`` that runs on ``each``."""
    speed = SOFTWARE_SPEED if each.is_software else 0.0
    used = chosen(each.available, each.name)
    return Device(
        name, f"{each.name} (SYCL {each.filter})",
        total_host_bytes() if each.is_software else each.memory_bytes, speed, speed,
        features=tuple((f, f in used) for f in PROBES),
        max_binding_bytes=min(each.max_buffer, LONGEST_BINDING),
        commits_host_memory=each.is_software, fusions=FUSIONS, runs_ahead=True,
        is_software=each.is_software)


@contextmanager
def told(device: str) -> Iterator[None]:
    """Errors of dpctl become ours: :class:`DeviceLost` where work failed."""
    try:
        yield
    except (UnladenError, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or "dpctl gives no reason"
        raise DeviceLost(f"{device}: {type(error).__name__}: {text}",
                         hint="load the model again; a driver update may help") from error
