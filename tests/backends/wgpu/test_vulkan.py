"""What Vulkan says of cards' memory, and what becomes of it."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from factory import Shape
from schedule.paper import graph_of, paper_file
from unladen.assembly.setup import DEVICES_VARIABLE, device_names
from unladen.backends import backend_of, default_devices
from unladen.backends.base import BackendOptions, Device, KVLayout
from unladen.backends.wgpu import adapters, gpu, vulkan
from unladen.backends.wgpu.backend import WgpuBackend
from unladen.backends.wgpu.gpu import device_of
from unladen.backends.wgpu.vulkan import Card, own_memory
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.types import Limits

LOCAL = vulkan.DEVICE_LOCAL
GIB = 1 << 30


def test_the_device_here() -> None:
    """A real driver answers, and is the one that WebGPU finds."""
    cards, (adapter, *_) = vulkan.cards(), adapters.adapters()
    assert all(c.memory_bytes >= c.free_bytes > 0 for c in cards)
    found = adapters.card_of(adapter)
    assert found is not None and found.name == adapter.info["device"]
    device = backend_of("wgpu").open("wgpu", BackendOptions())
    assert 0 < backend_of("wgpu").free_bytes(device) <= device.memory_bytes


def test_the_layout_of_the_structures() -> None:
    """As a C compiler lays them out on every system with pointers of 8 bytes."""
    assert (ctypes.sizeof(vulkan._Memory), vulkan._Memory.heaps.offset) == (536, 280)
    assert (ctypes.sizeof(vulkan._Budget), vulkan._Budget.usage.offset) == (272, 144)
    assert (ctypes.sizeof(vulkan._InstanceInfo), ctypes.sizeof(vulkan._Application)) == (64, 48)
    assert (ctypes.sizeof(vulkan._Extension), ctypes.sizeof(vulkan._Heap)) == (260, 16)


@pytest.mark.parametrize(("heaps", "budgets", "expected"), [
    ([(24 * GIB, LOCAL), (64 * GIB, 0)], None, (24 * GIB, 24 * GIB)),
    ([(24 * GIB, LOCAL), (64 * GIB, 0)], [(20 * GIB, GIB), (60 * GIB, 0)], (24 * GIB, 19 * GIB)),
    # A window of the card's memory that the host can see is a heap of its own.
    ([(GIB // 4, LOCAL), (64 * GIB, 0), (8 * GIB, LOCAL)], [(1, 0), (2, 0), (7 * GIB, 0)],
     (8 * GIB, 7 * GIB)),
    ([(8 * GIB, LOCAL)], [(2 * GIB, 3 * GIB)], (8 * GIB, 0)),
    ([(8 * GIB, LOCAL)], [(9 * GIB, 0)], (8 * GIB, 8 * GIB)),
    ([(8 * GIB, 0)], None, (0, 0)), ([], None, (0, 0))])
def test_own_memory(heaps: list[tuple[int, int]], budgets: list[tuple[int, int]] | None,
                    expected: tuple[int, int]) -> None:
    assert own_memory(heaps, budgets) == expected


@dataclass
class Driver:
    """A Vulkan library with devices of ``names``, each of 8 GiB with 5 GiB of budget."""

    names: list[bytes]
    has_budget: bool = True
    version: int = vulkan.VERSION
    status: int = 0
    destroyed: list[int] = field(default_factory=list)

    def vkCreateInstance(self, info: Any, _: None, ref: Any) -> int:
        assert info._obj.application.contents.api_version == vulkan.VERSION
        ref._obj.value = 77
        return self.status

    def vkDestroyInstance(self, instance: Any, _: None) -> None:
        self.destroyed.append(instance.value)

    def vkEnumeratePhysicalDevices(self, instance: Any, ref: Any, items: Any) -> int:
        ref._obj.value = len(self.names)
        for i in range(len(items or ())):
            items[i] = i + 1
        return 0

    def vkEnumerateDeviceExtensionProperties(self, device: Any, layer: None, ref: Any, items: Any
                                             ) -> int:
        ref._obj.value = int(self.has_budget)
        for item in items or ():
            item.name = vulkan.BUDGET
        return 0

    def vkGetPhysicalDeviceProperties(self, device: Any, raw: Any) -> None:
        head = np.array([self.version, 1, 0x10DE, 0x2684, 2], np.uint32).tobytes()
        raw[:len(head) + 12] = head + self.names[device.value - 1].ljust(12, b"\0")

    def vkGetPhysicalDeviceMemoryProperties2(self, device: Any, ref: Any) -> None:
        memory = ref._obj
        memory.n_heaps = 1
        memory.heaps[0].size, memory.heaps[0].flags = 8 * GIB, LOCAL
        assert bool(memory.next) is self.has_budget
        if self.has_budget:
            budget = ctypes.cast(memory.next, ctypes.POINTER(vulkan._Budget)).contents
            assert budget.type == vulkan.BUDGET_PROPERTIES
            budget.budget[0], budget.usage[0] = 5 * GIB, GIB


@pytest.mark.parametrize(("driver", "free"), [
    (Driver([b"card", b"other"]), 4 * GIB),
    (Driver([b"card", b"other"], has_budget=False), 8 * GIB)])
def test_cards_of_a_driver(monkeypatch: pytest.MonkeyPatch, driver: Driver, free: int) -> None:
    monkeypatch.setattr(vulkan, "_load", lambda: driver)
    assert list(vulkan.cards()) == [Card(0x10DE, 0x2684, name, 8 * GIB, free)
                                    for name in ("card", "other")]
    assert driver.destroyed == [77]


def test_drivers_that_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for driver, expected in ((None, []), (Driver([b"card"], status=-9), []),
                             (Driver([b"card"], version=1 << 22),
                              [Card(0x10DE, 0x2684, "card", 0, 0)])):
        monkeypatch.setattr(vulkan, "_load", lambda d=driver: d)
        assert list(vulkan.cards()) == expected


class Adapter:
    """What WebGPU says of one."""

    features: frozenset[str] = frozenset()
    limits: ClassVar = {"max-storage-buffer-binding-size": 1 << 30, "max-buffer-size": 1 << 31}

    def __init__(self, kind: str, api: str = "Vulkan", number: int = 1) -> None:
        self.info = {"adapter_type": kind, "backend_type": api, "vendor_id": 7, "device": "card",
                     "device_id": number}


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this machine have some adapters and cards."""
    def set_up(found: list[Adapter], cards: list[Card]) -> None:
        monkeypatch.setattr(adapters, "adapters", lambda: tuple(found))
        monkeypatch.setattr(adapters, "may_have_hardware", lambda: True)
        monkeypatch.setattr(gpu, "hardware", adapters.hardware)
        monkeypatch.setattr(vulkan, "cards", lambda: cards)
    return set_up


Has = Callable[..., None]


def test_nothing_is_looked_for_without_a_driver(monkeypatch: pytest.MonkeyPatch,
                                               tmp_path: Path) -> None:
    monkeypatch.setattr(adapters, "Path", lambda _: tmp_path)
    monkeypatch.setattr(adapters.sys, "platform", "linux")
    monkeypatch.setattr(adapters, "adapters", lambda: pytest.fail("looked for adapters"))
    assert [d.name for d in default_devices()] == ["cpu:0"]
    (tmp_path / "nvidia0").touch()
    assert adapters.may_have_hardware()
    monkeypatch.setattr(adapters.sys, "platform", "darwin")
    (tmp_path / "nvidia0").unlink()
    assert adapters.may_have_hardware()


def test_alike_cards_in_order(has: Has) -> None:
    found = [Adapter("DiscreteGPU"), Adapter("DiscreteGPU", number=2), Adapter("DiscreteGPU"),
             Adapter("DiscreteGPU", "D3D12"), Adapter("DiscreteGPU", number=3)]
    cards = [Card(7, 1, "a", 10, 9), Card(7, 1, "b", 20, 19), Card(7, 2, "c", 30, 29)]
    has(found, cards)
    assert [device_of(a, "wgpu:0").memory_bytes for a in found] == [10, 30, 20, 10, 0]


@pytest.mark.parametrize(("kinds", "default"), [
    (["CPU"], []), (["IntegratedGPU", "CPU"], [0]), (["IntegratedGPU", "IntegratedGPU"], [0]),
    (["DiscreteGPU", "DiscreteGPU", "IntegratedGPU", "CPU"], [0, 1]),
    (["DiscreteGPU", "DiscreteGPU:D3D12"], [0]), (["VirtualGPU", "Unknown"], [])])
def test_what_is_used_unasked(has: Has, monkeypatch: pytest.MonkeyPatch, kinds: list[str],
                              default: list[int]) -> None:
    """Hardware, each card once; never software by itself."""
    has([Adapter(*kind.split(":")) for kind in kinds], [])
    monkeypatch.delenv(DEVICES_VARIABLE, raising=False)
    expected = [*(f"wgpu:{i}" for i in default), "cpu:0"]
    assert [d.name for d in default_devices()] == expected
    assert list(device_names(None)) == expected
    monkeypatch.setenv(DEVICES_VARIABLE, "cpu:1")
    assert device_names(None) == ("cpu:1",)


def test_budget_is_what_is_free(has: Has, monkeypatch: pytest.MonkeyPatch) -> None:
    has([adapter := Adapter("DiscreteGPU")], [Card(7, 1, "card", 8 * GIB, 3 * GIB)])
    backend = WgpuBackend()

    class Gpu:
        def free_bytes(self) -> int:
            return 1 << 46
    gpu: Any = Gpu()
    gpu.adapter = adapter
    monkeypatch.setattr(backend, "gpu", lambda name: gpu)
    device = device_of(adapter, "wgpu:0")
    assert (device.memory_bytes, backend.free_bytes(device)) == (8 * GIB, 3 * GIB)
    has([adapter], [])
    assert backend.free_bytes(device) == 1 << 46


def test_memory_that_nobody_knows(caplog: pytest.LogCaptureFixture,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes there unasked, and it is said why; what was asked for goes."""
    monkeypatch.setattr(backend_of("null"), "free_bytes", lambda d: d.memory_bytes or 1 << 46)
    graph = graph_of(paper_file(Shape("llama", n_layers=3), "F32"))
    limits, layout = Limits(512, 8, 1, 16, 16, 32), KVLayout(32, 16, "F16", "F16")
    fast = {"bandwidth": 1e12, "flops": 1e13, "link_bandwidth": 1e11, "is_pretend": True}
    host = Device("null:9", "", GIB, 1e9, 1e8, is_host=True, is_pretend=True)
    unknown, known = (Device(f"null:{i}", "", i * GIB, **fast) for i in (0, 1))

    def layers(*devices: Device, **place: Any) -> set[str]:
        caplog.clear()
        options = PlanOptions(devices, PlaceOptions(**place))
        made = make_blueprint(graph, limits, layout, options)
        assert made.streamed is None or unknown not in devices
        return {d.name for d in made.layers}
    with caplog.at_level(logging.WARNING, "unladen"):
        assert layers(unknown, host) == {"null:9"}
        assert "null:0 doesn't say how much memory it has" in caplog.text
        assert layers(unknown, known, host) == layers(known, host) == {"null:1"}
        assert layers(unknown, host, n_gpu_layers="all") == {"null:0"}
        assert not caplog.text
        assert layers(unknown) == {"null:0"}
