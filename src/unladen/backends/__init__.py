"""Backends, found by scanning this folder and the entry-point group ``unladen.backends``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import cast

from unladen.backends.base import Backend, Device, Options
from unladen.discover import modules
from unladen.errors import BackendNotInitialised

__all__ = ["Backend", "Device", "Options", "all_devices", "backend_of", "registry"]


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
