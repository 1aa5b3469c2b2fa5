"""Finds wgpu-py and the adapters that it can use."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unladen.backends._gpu import forks
from unladen.backends._gpu.numbers import numbered
from unladen.errors import BackendNotInitialised

if TYPE_CHECKING:
    from unladen.backends.wgpu import vulkan

BACKENDS = ("Vulkan", "Metal", "D3D12")
"""The drivers of wgpu that can run the kernels. OpenGL can't."""
ORDER = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")
"""Kinds of adapters, the fastest first; "CPU" is software."""
DRIVER_FILES = ("dri/renderD*", "nvidia[0-9]*", "dxg", "kgsl-*", "mali*")
"""Files in /dev that GPU drivers make: Linux's own, NVIDIA's, that of WSL, Qualcomm's and Arm's."""
INSTALL = "pip install 'wgpu>=0.32,<0.33'"
"""The hint where wgpu-py is missing."""


@functools.cache
def load() -> tuple[Any, str]:
    """The module ``wgpu`` and "", or None and why it can't be used."""
    try:
        module = importlib.import_module("wgpu")
        importlib.import_module("wgpu.backends.wgpu_native")
    except (ImportError, OSError, RuntimeError) as error:
        return None, f"wgpu can't be loaded: {error}; {INSTALL}"
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _keep_all(module))
    return module, ""


def _keep_all(module: Any) -> None:
    """Let a forked child free nothing that its parent made: it would wait for the parent's
    threads."""
    if PROCESS.id is not None:
        for kind in vars(module).values():
            if isinstance(kind, type) and "__del__" in vars(kind):
                kind.__del__ = lambda _: None  # type: ignore[attr-defined]


@functools.cache
def native() -> tuple[Any, Any]:
    """The C library of wgpu-py, whose calls raise its errors, and its cffi."""
    api = importlib.import_module("wgpu.backends.wgpu_native._api")
    return api.libf, api.ffi


PROCESS: Final = forks.Process("wgpu")
"""The process that asked for the adapters first."""


@functools.cache
def adapters() -> Sequence[Any]:
    """The machine's adapters, the fastest kinds first."""
    module, _ = load()
    if module is None:
        return ()
    PROCESS.begin()
    with _quiet_drivers():
        found = [a for a in module.gpu.enumerate_adapters_sync()
                 if a.info["backend_type"] in BACKENDS]
    return tuple(sorted(found, key=_rank))


class _Quiet:
    """Locks the environment while drivers are loaded."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Make a new lock: in a forked child, the thread that held the old one doesn't exist."""
        self.lock = threading.RLock()


_QUIET: Final = _Quiet()


@contextlib.contextmanager
def _quiet_drivers() -> Iterator[None]:
    """Set XDG_RUNTIME_DIR if it isn't set, as on a machine without a screen. Vulkan drivers look
    for a Wayland display, whose library would print a complaint for each driver."""
    import tempfile
    with _QUIET.lock:
        if "XDG_RUNTIME_DIR" in os.environ:
            yield
            return
        os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
        try:
            yield
        finally:
            os.environ.pop("XDG_RUNTIME_DIR", None)


def _rank(adapter: Any) -> int:
    kind = adapter.info["adapter_type"]
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def hardware() -> Sequence[Any]:
    """The adapters that are used where no devices are named: the discrete GPUs, or else the first
    integrated one. All belong to one driver of wgpu, since another driver lists the same cards
    again. So may two drivers of Vulkan; the first one is used."""
    for kind in ("DiscreteGPU", "IntegratedGPU"):
        found = [a for a in adapters() if a.info["adapter_type"] == kind]
        alike = [a for a in found if a.info["backend_type"] == found[0].info["backend_type"]]
        if alike:
            return _once(alike) if kind == "DiscreteGPU" else alike[:1]
    return []


def _once(found: Sequence[Any]) -> Sequence[Any]:
    """The adapters of ``found`` without those of cards that come before in it."""
    numbers = [_number(a) for a in found]
    if len(set(numbers)) == len(numbers) or found[0].info["backend_type"] != "Vulkan":
        return found
    cards, seen, kept = _cards(), set(), []
    for adapter in found:
        card = _card_among(cards, adapter)
        place = card.place if card is not None else b""
        if not place or place not in seen:
            kept.append(adapter)
        seen.add(place)
    return kept


def _cards() -> Sequence[vulkan.Card]:
    from unladen.backends.wgpu import vulkan  # imported only where there are adapters
    with _quiet_drivers():
        return vulkan.cards()


def card_of(adapter: Any) -> vulkan.Card | None:
    """The Vulkan device of an adapter, with its memory now; None where Vulkan doesn't list it.
    Among identical cards the n-th adapter is the n-th card."""
    return _card_among(_cards(), adapter)


def _card_among(found: Sequence[vulkan.Card], adapter: Any) -> vulkan.Card | None:
    cards = [c for c in found if _number(adapter) == (c.vendor_id, c.device_id)]
    alike = [a for a in adapters() if _number(a) == _number(adapter)
             and a.info["backend_type"] == adapter.info["backend_type"]]
    place = alike.index(adapter) if adapter in alike else 0
    return cards[place] if place < len(cards) else None


def _number(adapter: Any) -> tuple[int, int]:
    return adapter.info["vendor_id"], adapter.info["device_id"]


def why_none() -> str:
    """Why :func:`adapters` is empty and what to do about it; "" if it isn't empty."""
    module, why = load()
    if module is None:
        return why
    if adapters():
        return ""
    return ("no Vulkan, Metal or D3D12 driver was found: install the maker's GPU driver, or for "
            "software rendering mesa-vulkan-drivers and libvulkan1")


def adapter_of(number: int) -> Any:
    """The adapter of device ``number``. Numbers beyond the last adapter start again at the first,
    so that an adapter can be several devices. Raises :class:`BackendNotInitialised`."""
    found = adapters()
    if not found:
        raise BackendNotInitialised(f"wgpu:{number} is not present", hint=why_none())
    return numbered("wgpu", found, number)


def may_have_hardware() -> bool:
    """Whether there may be a GPU's driver. On Linux a driver has a file in /dev."""
    return sys.platform != "linux" or any(
        found for pattern in DRIVER_FILES for found in Path("/dev").glob(pattern))
