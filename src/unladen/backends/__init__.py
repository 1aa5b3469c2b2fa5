"""Backends, found by scanning this folder and the entry-point group ``unladen.backends``."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Final, cast

import numpy as np

from unladen.backends._host import HostMemory
from unladen.backends._system import this_system
from unladen.backends.base import Backend, BackendOptions, Device
from unladen.discover import Found, is_plugin, modules
from unladen.errors import BackendNotInitialised, UnladenError

__all__ = ["Backend", "Device", "BackendOptions", "Hold", "HostMemory", "all_devices", "backend_of",
           "default_devices", "registry", "supports_gpu_offload", "supports_mlock",
           "supports_mmap", "supports_rpc", "why_no_hardware"]

BY_NAME: Final = ("cuda", "hip", "metal")
"""Backends of one maker's hardware. Their devices are used only where they are named."""
ALSO_BY_NAME: Final = ("opencl",)
"""Backends whose hardware may be that of :data:`BY_NAME` again."""
OTHERS_WORDS: Final[Mapping[str, str]] = MappingProxyType({
    "auto": "leave the devices out, and they are chosen",
    **dict.fromkeys(("nvidia", "geforce", "rtx"), "NVIDIA's cards are cuda:0, or wgpu:0 by Vulkan"),
    **dict.fromkeys(("amd", "radeon"), "AMD's cards are wgpu:0 by Vulkan, or hip:0 with ROCm"),
    **dict.fromkeys(("intel", "arc", "xpu"),
                    "Intel's GPUs are wgpu:0 by Vulkan, or opencl:0 or sycl:0"),
    **dict.fromkeys(("apple", "mac"), "Apple's GPUs are wgpu:0 or metal:0")})
"""Words that are written as devices and name no backend, and what to write."""


@functools.cache
def registry() -> Mapping[str, Backend]:
    """Every backend by name.

    A backend's module has a function ``create() -> Backend``. It may also have ``has_hardware() ->
    bool``: whether some of its devices may be used where no devices are named. It must answer at
    once, since creating the backend or finding its devices may take a while.
    """
    return found().named()


@functools.cache
def found() -> Found[Backend]:
    """Every backend by name, and the plug-ins that were left out."""
    scanned = _scanned()
    result: Found[Backend] = Found(left_out=list(scanned.left_out))
    for module in scanned.entries.values():
        result.add(module, _named_backend)
    return result


@functools.cache
def _scanned() -> Found[ModuleType]:
    """The modules of all backends, found without creating a backend."""
    result: Found[ModuleType] = Found()
    for module in modules("unladen.backends", "backends", report=result.leave_out):
        result.add(module, lambda m: [(m.__name__, m)])
    return result


def _modules() -> Sequence[ModuleType]:
    return tuple(_scanned().entries.values())


def _named_backend(module: ModuleType) -> Iterator[tuple[str | ModuleType, Backend]]:
    """The backend of ``module`` under its name and under its module. A plug-in's backend is asked
    for its devices first, so that one that fails is left out."""
    backend = _created(module)
    if is_plugin(module):
        _check_contract(backend)
        _may_serve(module)
        for device in backend.devices():
            if not {device.is_host, device.is_default} <= {True, False}:
                raise TypeError(f"is_host and is_default of {device.name} must be True or False")
    yield str(backend.name), backend
    yield module, backend


def _check_contract(backend: Backend) -> None:
    """Raise TypeError where a plug-in's methods don't take the arguments of this contract."""
    kind = type(backend).__name__
    if not isinstance(backend, Backend):
        raise TypeError(f"create() returns a {kind}, which is not derived from "
                        "unladen.backends.Backend")
    if not isinstance(getattr(backend, "name", None), str):
        raise TypeError(f"{kind} has no name")
    for name, method in vars(Backend).items():
        if name.startswith("_"):
            continue
        wanted = inspect.signature(method).parameters.values()
        by_name = {p.name: None for p in wanted if p.kind is p.KEYWORD_ONLY}
        try:
            # Both are functions of a class, so ``self`` counts in both.
            inspect.signature(getattr(type(backend), name)).bind(
                *[None] * (len(wanted) - len(by_name)), **by_name)
        except TypeError:
            arguments = ", ".join(p.name for p in wanted if p.name != "self")
            raise TypeError(f"{kind}.{name} doesn't take ({arguments})") from None


@functools.cache
def _created(module: ModuleType) -> Backend:
    return cast(Backend, module.create())


def _may_serve(module: ModuleType) -> bool:
    return not hasattr(module, "has_hardware") or bool(module.has_hardware())


@functools.cache
def _named(name: str) -> Backend | None:
    # The package's backends are named like their folders, so that finding one creates no other.
    for module in _modules():
        if module.__name__ == f"{__name__}.{name}":
            return _created(module)
    return registry().get(name)


def backend_of(device: str) -> Backend:
    """The backend of a device name ("cpu", "cpu:1"); raises :class:`BackendNotInitialised`."""
    name = device.partition(":")[0]
    backend = _named(name)
    if backend is None:
        raise BackendNotInitialised(f"no backend is called {name!r}", hint=_instead(name))
    return backend


class Hold:
    """Keeps ``devices`` open until :meth:`release`, or until nobody refers to the hold. A device is
    closed when its last hold ends. The next hold opens it again, with its ``options``."""

    def __init__(self, devices: Iterable[Device], options: BackendOptions) -> None:
        held = [(backend_of(device.name), device) for device in devices]
        _holds().take(held, options)
        self.release = weakref.finalize(self, _holds().give_back, held)
        # At the end of the process drivers may be gone already, and the system frees everything.
        self.release.atexit = False

    def __repr__(self) -> str:
        return f"<Hold{'' if self.release.alive else ', released'}>"


class _Holds:
    """Counts the holds on each device."""

    def __init__(self) -> None:
        # The garbage collector may end a hold while this thread begins one.
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """Make a new lock in a forked child, where the thread that held the old one doesn't
        exist."""
        self._lock = threading.RLock()

    def take(self, devices: Sequence[tuple[Backend, Device]], options: BackendOptions) -> None:
        with self._lock:
            taken: list[tuple[Backend, Device]] = []
            try:
                for backend, device in devices:
                    self._counts[device.name] += 1
                    taken.append((backend, device))
                    if self._counts[device.name] == 1:
                        backend.open(device.name, options)
            except BaseException:
                self.give_back(taken)
                raise

    def give_back(self, devices: Sequence[tuple[Backend, Device]]) -> None:
        with self._lock:
            for backend, device in devices:
                self._counts[device.name] -= 1
                if not self._counts[device.name]:
                    del self._counts[device.name]
                    backend.close(device)


@functools.cache
def _holds() -> _Holds:
    return _Holds()


def _instead(name: str) -> str:
    """What to write instead of ``name``, which no backend has, and what there is."""
    from difflib import get_close_matches
    near = get_close_matches(name.lower(), registry(), n=1, cutoff=0.7)
    meant = f"did you mean {near[0]}? " if near else ""
    if name.lower() in OTHERS_WORDS:
        meant = f"{OTHERS_WORDS[name.lower()]}; "
    here = ", ".join(d.name for d in all_devices())
    return (f"{meant}devices here: {here}; backends: "
            f"{', '.join(sorted(registry()))}; GPUs are reached through wgpu (Vulkan, Metal, "
            "D3D12), cuda, hip, metal, opencl, sycl, or a libggml (UNLADEN_GGML)")


def all_devices() -> list[Device]:
    """The real devices of every backend; pretend and reference devices are left out."""
    return [d for b in registry().values() for d in listed(b)[0]]


def default_devices() -> list[Device]:
    """The devices that are used where none are named: other hardware than the host's processor, if
    there is some, and last the host's processor."""
    present = [d for m in _modules() if is_plugin(m) or _may_serve(m)
               for d in _devices_unasked(m)]
    return [d for d in present if d.is_default] + [d for d in present if d.is_host][:1]


def _devices_unasked(module: ModuleType) -> Sequence[Device]:
    if not is_plugin(module):
        return _created(module).devices()
    backend = found().entries.get(module)
    return backend.devices() if backend is not None and _may_serve(module) else ()


def why_no_hardware() -> list[str]:
    """Why no other hardware than the host's processor is used by default: a line for each backend
    that finds a driver, but no device that it can use."""
    asked = [m for m in _modules() if not is_plugin(m) and hasattr(m, "has_hardware")]
    backends = [_created(m) for m in asked if m.has_hardware()]
    found = [(b, *listed(b)) for b in backends]
    return [why or f"{b.name} finds no graphics processor, only software that computes like one: "
            "install the maker's driver"
            for b, devices, why in found if not any(d.is_default for d in devices)]


def hardware_by_name() -> list[Device]:
    """Hardware that computes only where it is named: the first device of each of
    :data:`BY_NAME`; of the others only where these have none."""
    first = [d for name in BY_NAME for d in _hardware_of(name)[:1]]
    return first or [d for name in ALSO_BY_NAME for d in _hardware_of(name)[:1]]


def _hardware_of(name: str) -> list[Device]:
    backend = _named(name)
    return [] if backend is None else [d for d in listed(backend)[0] if not d.is_software]


def listed(backend: Backend) -> tuple[Sequence[Device], str]:
    """The devices of ``backend``, and why there are none, "" if there are some. A variable that it
    can't follow is such a reason."""
    try:
        found = backend.devices()
        return found, "" if found else backend.why_none()
    except UnladenError as error:
        return (), str(error)


def supports_gpu_offload() -> bool:
    """Whether layers can be put on a device that isn't the host's processor in any form."""
    return any(not d.is_host and not d.is_software for d in all_devices())


def supports_mmap() -> bool:
    """Whether weights can be used where they lie in the mapped file; the host's processor can."""
    probe = np.zeros(1, np.uint8)
    return any(d.is_host and backend_of(d.name).wrap(d, probe) is not None for d in all_devices())


def supports_mlock() -> bool:
    """Whether this system can lock weights in memory (``use_mlock``), as far as limits allow."""
    return this_system().can_lock


def supports_rpc() -> bool:
    """Whether layers can be put on another host: no backend here does that."""
    return False
