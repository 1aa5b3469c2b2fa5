"""Backends, found by scanning this folder and the entry-point group ``unladen.backends``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import cast

import numpy as np

from unladen.backends.base import Backend, Device, Options
from unladen.discover import modules
from unladen.errors import BackendNotInitialised

__all__ = ["Backend", "Device", "Options", "all_devices", "backend_of", "default_devices",
           "registry", "supports_gpu_offload", "supports_mlock", "supports_mmap", "supports_rpc"]


@functools.cache
def registry() -> Mapping[str, Backend]:
    """Every backend by name. A backend's module has a function ``create() -> Backend``."""
    found = [_create(m) for m in modules("unladen.backends", "backends")]
    return {b.name: b for b in found}


def _create(module: ModuleType) -> Backend:
    return cast(Backend, module.create())


def backend_of(device: str) -> Backend:
    """The backend of a device name ("cpu", "cpu:1"); raises :class:`BackendNotInitialised`."""
    name = device.partition(":")[0]
    try:
        return registry()[name]
    except KeyError:
        raise BackendNotInitialised(f"no backend is called {name!r} (device {device!r})",
                                    hint="known: " + ", ".join(sorted(registry()))) from None


def all_devices() -> list[Device]:
    """The devices of every backend that are real (pretend and reference ones are not listed)."""
    return [d for b in registry().values() for d in b.devices()]


def default_devices() -> list[Device]:
    """What is used where no devices are named: hardware beside the host's processor, if there is
    some, and that processor, last."""
    found = [d for b in registry().values() if b.has_hardware() for d in b.devices()]
    return [d for d in found if d.is_default] + [d for d in found if d.is_host][:1]


def supports_gpu_offload() -> bool:
    """Whether there is a device beside the host's processor that layers can be put on."""
    return any(not d.is_host for d in all_devices())


def supports_mmap() -> bool:
    """Whether weights can be used where they lie in the mapped file: on this host's devices."""
    probe = np.zeros(1, np.uint8)
    return any(d.is_host and backend_of(d.name).wrap(d, probe) is not None for d in all_devices())


def supports_mlock() -> bool:
    """Whether weights can be locked in memory: no, the system may always drop mapped pages."""
    return False


def supports_rpc() -> bool:
    """Whether layers can be put on another host: no backend here does that."""
    return False
