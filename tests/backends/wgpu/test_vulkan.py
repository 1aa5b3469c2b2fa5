"""What Vulkan says of cards' memory, and what becomes of it."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    assert (ctypes.sizeof(vulkan._Identity), vulkan._Identity.device.offset) == (64, 16)
    assert (ctypes.sizeof(vulkan._Pci), vulkan._Pci.address.offset) == (32, 16)
    assert (ctypes.sizeof(vulkan._Properties), vulkan._Properties.raw.offset) == (16 + 4096, 16)


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


@pytest.mark.parametrize(("heaps", "budgets", "expected"), [
    ([(GIB // 2, LOCAL), (14 * GIB, 0)], None, (14.5 * GIB, 14.5 * GIB)),
    ([(GIB // 2, LOCAL), (14 * GIB, 0)], [(GIB // 2, GIB), (10 * GIB, GIB)],
     (14.5 * GIB, 9 * GIB)), ([], None, (0, 0))])
def test_all_memory(heaps: list[tuple[int, int]], budgets: list[tuple[int, int]] | None,
                    expected: tuple[float, float]) -> None:
    assert vulkan.all_memory(heaps, budgets) == expected


@dataclass
class Driver:
    """A Vulkan library with devices of ``names``, each of 8 GiB with 5 GiB of budget."""

    names: list[bytes]
    has_budget: bool = True
    has_address: bool = False
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
        names = [vulkan.BUDGET] * self.has_budget + [vulkan.PCI] * self.has_address
        ref._obj.value = len(names)
        for item, name in zip(items or (), names, strict=False):
            item.name = name
        return 0

    def vkGetPhysicalDeviceProperties(self, device: Any, raw: Any) -> None:
        head = np.array([self.version, 1, 0x10DE, 0x2684, 2], np.uint32).tobytes()
        raw[:len(head) + 12] = head + self.names[device.value - 1].ljust(12, b"\0")

    def vkGetPhysicalDeviceProperties2(self, device: Any, ref: Any) -> None:
        assert ref._obj.type == vulkan.PROPERTIES_2
        kind = vulkan._Pci if self.has_address else vulkan._Identity
        said = ctypes.cast(ref._obj.next, ctypes.POINTER(kind)).contents
        if self.has_address:
            assert said.type == vulkan.PCI_PROPERTIES
            said.address[:] = [0, 3, 0, device.value]
        else:
            assert said.type == vulkan.ID_PROPERTIES
            said.device[:] = [0] * 15 + [device.value - 1]

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
    memory = 2 * (8 * GIB, free)
    # A UUID of zeros says nothing.
    assert list(vulkan.cards()) == [
        Card(0x10DE, 0x2684, name, *memory, place)
        for name, place in (("card", b""), ("other", b"\0" * 15 + b"\1"))]
    assert driver.destroyed == [77]
    monkeypatch.setattr(driver, "has_address", True)
    assert [c.place for c in vulkan.cards()] == [
        np.array([0, 3, 0, i], np.uint32).tobytes() for i in (1, 2)]


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


def test_two_drivers_of_one_card(has: Has) -> None:
    """Each card is used once, by the first driver that lists it; unknown cards all are."""
    def cards(*places: bytes) -> list[Card]:
        return [Card(7, 1, "card", 10, 9, 10, 9, place) for place in places]
    found = [Adapter("DiscreteGPU") for _ in range(4)]
    for places, used in (((b"a", b"a", b"b", b"b"), [0, 2]), ((b"a", b"b", b"a", b"b"), [0, 1]),
                         ((b"a", b"b", b"c", b"d"), [0, 1, 2, 3]), ((b"",) * 4, [0, 1, 2, 3]),
                         ((b"a", b"a"), [0, 2, 3]), ((), [0, 1, 2, 3])):
        has(found, cards(*places))
        assert [found.index(a) for a in adapters.hardware()] == used
    has([Adapter("DiscreteGPU", "D3D12") for _ in range(2)], cards(b"a", b"a"))
    assert len(adapters.hardware()) == 2


def test_an_integrated_processor_has_what_its_driver_offers(
        has: Has, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's memory isn't all its own."""
    monkeypatch.setattr(gpu, "total_host_bytes", lambda: 30 * GIB)
    card = Card(7, 1, "card", GIB, GIB, 16 * GIB, 12 * GIB)
    for adapter, cards, expected in (
            (Adapter("IntegratedGPU"), [card], 16 * GIB), (Adapter("IntegratedGPU"), [], 30 * GIB),
            (Adapter("IntegratedGPU"), [Card(7, 1, "old", 0, 0)], 30 * GIB),
            (Adapter("IntegratedGPU"), [Card(7, 1, "card", 0, 0, 64 * GIB)], 30 * GIB),
            (Adapter("IntegratedGPU", "Metal"), [card], 20 * GIB),
            (Adapter("CPU"), [card], 30 * GIB)):
        has([adapter], cards)
        assert device_of(adapter, "wgpu:0").memory_bytes == expected


@pytest.mark.parametrize(("kind", "free_host", "expected"), [
    ("IntegratedGPU", 20 * GIB, 12 * GIB), ("IntegratedGPU", 5 * GIB, 5 * GIB),
    ("CPU", 20 * GIB, 20 * GIB)])
def test_what_is_free_for_an_integrated_processor(
        has: Has, monkeypatch: pytest.MonkeyPatch, kind: str, free_host: int, expected: int
        ) -> None:
    has([adapter := Adapter(kind)], [Card(7, 1, "card", GIB, GIB, 16 * GIB, 12 * GIB)])
    monkeypatch.setattr(gpu, "total_host_bytes", lambda: 30 * GIB)
    monkeypatch.setattr(gpu, "free_host_bytes", lambda: free_host)
    backend, device = WgpuBackend(), device_of(adapter, "wgpu:0")
    opened = object.__new__(gpu.Gpu)
    opened.adapter, opened.device = adapter, device
    monkeypatch.setattr(backend, "gpu", lambda name: opened)
    assert backend.free_bytes(device) == expected
    assert opened.free_bytes() == min(free_host, device.memory_bytes)


def test_threads_that_load_drivers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one sets isn't taken from the other."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    inside, left = threading.Event(), threading.Event()

    def other() -> str | None:
        with adapters._quiet_drivers():
            inside.set()
            left.wait()
            return os.environ.get("XDG_RUNTIME_DIR")
    with ThreadPoolExecutor(1) as pool:
        with adapters._quiet_drivers():
            found = pool.submit(other)
            inside.wait(0.3)  # without a lock the other comes in
        left.set()
        assert found.result()
    assert "XDG_RUNTIME_DIR" not in os.environ


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
