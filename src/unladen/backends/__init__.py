"""Backends, found by scanning this folder and the entry-point group ``unladen.backends``."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import cast

import numpy as np

from unladen.backends._system import this_system
from unladen.backends.base import Backend, Device, Options
from unladen.discover import modules
from unladen.errors import BackendNotInitialised

__all__ = ["Backend", "Device", "Options", "all_devices", "backend_of", "default_devices",
           "registry", "supports_gpu_offload", "supports_mlock", "supports_mmap", "supports_rpc"]


@functools.cache
def registry() -> Mapping[str, Backend]:
    """Every backend by name.

    A backend's module has a function ``create() -> Backend``, and may have ``has_hardware() ->
    bool``: whether some of its devices may be used where none are named, as far as that can be told
    at once, since creating the backend or finding its devices may take a while.
    """
    return {b.name: b for b in map(_created, _modules())}


@functools.cache
def _modules() -> Sequence[ModuleType]:
    return tuple(modules("unladen.backends", "backends"))


@functools.cache
def _created(module: ModuleType) -> Backend:
    return cast(Backend, module.create())


def _may_serve(module: ModuleType) -> bool:
    return not hasattr(module, "has_hardware") or bool(module.has_hardware())


@functools.cache
def _named(name: str) -> Backend | None:
    # Those of the package are called after their folders, so that the others needn't be created.
    for module in _modules():
        if module.__name__ == f"{__name__}.{name}":
            return _created(module)
    return registry().get(name)


def backend_of(device: str) -> Backend:
    """The backend of a device name ("cpu", "cpu:1"); raises :class:`BackendNotInitialised`."""
    name = device.partition(":")[0]
    backend = _named(name)
    if backend is None:
        raise BackendNotInitialised(f"no backend is called {name!r} (device {device!r})",
                                    hint=_what_there_is())
    return backend


def _what_there_is() -> str:
    here = ", ".join(d.name for d in all_devices())
    return f"devices here: {here}; backends: {', '.join(sorted(registry()))}; GPUs are reached " \
           "through wgpu (Vulkan, Metal, D3D12)"


def all_devices() -> list[Device]:
    """The devices of every backend that are real (pretend and reference ones are not listed)."""
    return [d for b in registry().values() for d in b.devices()]


def default_devices() -> list[Device]:
    """What is used where no devices are named: hardware beside the host's processor, if there is
    some, and that processor, last."""
    found = [d for m in _modules() if _may_serve(m) for d in _created(m).devices()]
    return [d for d in found if d.is_default] + [d for d in found if d.is_host][:1]


def supports_gpu_offload() -> bool:
    """Whether there is a device beside the host's processor that layers can be put on."""
    return any(not d.is_host for d in all_devices())


def supports_mmap() -> bool:
    """Whether weights can be used where they lie in the mapped file: on this host's devices."""
    probe = np.zeros(1, np.uint8)
    return any(d.is_host and backend_of(d.name).wrap(d, probe) is not None for d in all_devices())


def supports_mlock() -> bool:
    """Whether this system can lock weights in memory (``use_mlock``), as far as limits allow."""
    return this_system().can_lock


def supports_rpc() -> bool:
    """Whether layers can be put on another host: no backend here does that."""
    return False
