"""The devices that a driver shows, and why one can't be used."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from unladen.backends._gpu import abilities
from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.binaries import Binaries, folder_of_binaries
from unladen.backends._gpu.cuda_like.compiler import compiler_of, why_no_compiler
from unladen.backends._gpu.cuda_like.driver import Driver, driver_of, no_cards, why_no_driver
from unladen.backends._gpu.cuda_like.trial import refuses
from unladen.backends._gpu.cuda_like.vendor import MOST_LAUNCHED, Chip, Vendor
from unladen.backends._gpu.numbers import numbered
from unladen.backends.base import Device
from unladen.errors import BackendNotInitialised

LONGEST_BINDING = (1 << 32) - 256
"""The most bytes that a kernel binds at once: addresses in a binding have 32 bits."""
NAME_BYTES = 256
"""Bytes of the text with a device's name."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device that a driver shows. ``refused``: why it can't be used, "" if it can. ``target``:
    what its kernels are compiled for. ``versions``: the driver's and the compiler's, for people.
    ``launched_bytes``: shared memory that a launch can give a workgroup, with arrays of a fixed
    size; 0: none."""

    number: int
    handle: int
    name: str
    memory_bytes: int
    chip: Chip
    target: str
    refused: str
    versions: str = ""
    launched_bytes: int = 0


@functools.cache
def found(vendor: Vendor) -> Sequence[Found]:
    """The devices that the vendor's driver shows."""
    driver = driver_of(vendor)
    return () if driver is None else tuple(_found(driver, i) for i in range(driver.n_devices()))


def usable(vendor: Vendor) -> Sequence[Found]:
    """The devices that kernels can run on."""
    return [d for d in found(vendor) if not d.refused]


def _found(driver: Driver, number: int) -> Found:
    handle, name = ctypes.c_int(0), ctypes.create_string_buffer(NAME_BYTES)
    nbytes, major, minor = ctypes.c_size_t(0), ctypes.c_int(0), ctypes.c_int(0)
    ask = driver.functions
    failed = (ask["device"](ctypes.byref(handle), number)
              or ask["device_name"](name, NAME_BYTES, handle)
              or ask["device_bytes"](ctypes.byref(nbytes), handle)
              or ask["capability"](ctypes.byref(major), ctypes.byref(minor), handle))
    vendor, nothing = driver.vendor, Chip("", 0, frozenset())
    title = name.value.decode("utf-8", "replace") or f"device {number}"
    if failed:
        why = f"its driver fails when it is asked: {driver.name_of(failed)} ({failed})"
        return Found(number, handle.value, title, 0, nothing, "", why)
    chip = vendor.chip_of(driver, number, (major.value, minor.value))
    if isinstance(chip, str):
        return Found(number, handle.value, title, nbytes.value, nothing, "", chip)
    compiler = compiler_of(vendor)
    if compiler is None:
        return Found(number, handle.value, title, nbytes.value, chip, "", why_no_compiler(vendor))
    target = compiler.target(chip)
    why = "" if target else (f"its chip is older ({chip.name}) than those that the compiler of "
                             f"version {compiler.version} knows: install an older one")
    if vendor.newer_compiler and 0 < driver.major < compiler.major:
        why = (f"its driver is of {vendor.platform} {driver.version}, and takes no code of "
               f"{vendor.compiler} {compiler.version}: "
               f"{vendor.newer_compiler.format(major=driver.major)}")
    if target and vendor.may_abort:
        why = refuses(vendor, compiler.identity, target, Binaries(folder_of_binaries()))
    versions = (f"{vendor.platform} {driver.version or 'of an unknown version'}, "
                f"{vendor.compiler} {compiler.version}")
    chip = vendor.compiled_for(chip, target) if target else chip
    return Found(number, handle.value, title, nbytes.value, chip, target or "", why, versions,
                 _launched_bytes(driver, handle.value))


def _launched_bytes(driver: Driver, handle: int) -> int:
    ask, n = driver.functions, ctypes.c_int(0)
    if not {"device_number", "set_function"} <= ask.keys():
        return 0
    return 0 if ask["device_number"](ctypes.byref(n), MOST_LAUNCHED, handle) else n.value


def why_none(vendor: Vendor) -> str:
    """Why :func:`usable` is empty and what to do about it; "" if it isn't empty."""
    driver = driver_of(vendor)
    if driver is None:
        return why_no_driver(vendor)
    if usable(vendor):
        return ""
    if driver.refused:
        return f"{vendor.driver} is here, but {driver.refused}" + (
            no_cards(vendor) or f": {vendor.no_cards}")
    reasons = dict.fromkeys(d.refused for d in found(vendor))
    if len(reasons) == 1:
        return f"{', '.join(d.name for d in found(vendor))} can't be used: {next(iter(reasons))}"
    return "; ".join(f"{d.name} can't be used: {d.refused}" for d in found(vendor))


def found_of(vendor: Vendor, number: int) -> Found:
    """What device ``number`` runs on. Numbers beyond the last device start again at the first, so
    that one can be several devices. Raises :class:`BackendNotInitialised`."""
    here = usable(vendor)
    if not here:
        raise BackendNotInitialised(f"{vendor.backend}:{number} is not present",
                                    hint=why_none(vendor))
    return numbered(vendor.backend, here, number)


def features(vendor: Vendor, there: frozenset[str], device: str) -> frozenset[str]:
    """The abilities that kernels use of ``there``, those of ``device``. Raises
    :class:`InvalidArgument` where the environment asks for one that doesn't exist or that the
    device lacks."""
    return abilities.chosen(vendor.features_variable, there, device, known=vendor.abilities)


def device_of(vendor: Vendor, each: Found, name: str) -> Device:
    """The device called ``name`` that runs on ``each``."""
    used = features(vendor, each.chip.abilities, each.name)
    return Device(
        name, f"{each.name} ({each.chip.name}, {each.versions})", each.memory_bytes,
        features=tuple((f, f in used) for f in vendor.abilities if f in each.chip.abilities),
        max_binding_bytes=LONGEST_BINDING, fusions=FUSIONS, runs_ahead=True,
        writes_ahead=True, copies_to_peers=True)
