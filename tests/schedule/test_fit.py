"""Bytes are counted before they are allocated, and counted right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tiny_plan import LAYOUT, LIMITS, Allocated, Tiny
from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import OutOfMemory
from unladen.graph.graph import KVSpec
from unladen.runtime.plan import Plan
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.fit import (
    DeviceMemory,
    Footprint,
    MemoryPlan,
    kv_bytes,
    n_blocks,
    room,
    room_beside,
    with_more,
)
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions


@pytest.mark.parametrize("use_mmap", [True, False])
@pytest.mark.parametrize("names", [
    ("cpu:0",), ("cpu:0", "cpu:1"), ("cpu:0", "null:0", "null:1"), ("reference:0", "cpu:0")])
def test_counts_are_what_is_allocated(tiny: Tiny, allocated: Allocated, names: tuple[str, ...],
                                      use_mmap: bool) -> None:
    plan = tiny.plan(*names, use_mmap=use_mmap, place=PlaceOptions(n_gpu_layers=2))
    counted = {}
    for memory in plan.blueprint.memory.devices:
        for use, n in (("weights", memory.weight_bytes), ("kv", memory.kv_bytes),
                       ("arena", memory.arena_bytes)):
            if n:
                counted[memory.device.name, use] = n
        assert memory.device.is_host or memory.mapped_bytes == 0
        assert use_mmap or memory.mapped_bytes == 0
    staging = {key: allocated.pop(key) for key in list(allocated) if key[1] == "staging"}
    assert counted == allocated
    assert {name for name, _ in staging} == {n for n in names if n.startswith("null")}
    assert sum(staging.values()) == sum(plan.blueprint.staging_bytes().values())
    assert sum(staging.values()) <= sum(m.staging_bytes for m in plan.blueprint.memory.devices)
    assert {name for name, _ in counted} == set(names), "each device has something to hold"


def test_nothing_is_allocated_by_a_draft(tiny: Tiny, allocated: Allocated) -> None:
    make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(("cpu:0", "null:0")))
    assert not allocated


def test_pretend_memory_is_given_back(tiny: Tiny) -> None:
    null: Any = backend_of("null")
    plan: Plan | None = tiny.plan("cpu:0", "null:0")
    assert plan is not None
    memory = {m.device.name: m for m in plan.blueprint.memory.devices}
    assert null.used_bytes("null:0") == memory["null:0"].allocated_bytes > 0
    del plan
    assert null.used_bytes("null:0") == 0


def test_too_little_memory(tiny: Tiny, allocated: Allocated, monkeypatch: pytest.MonkeyPatch
                           ) -> None:
    monkeypatch.setenv("UNLADEN_NULL_MEMORY", "100000000,4096")
    blueprint = make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(
        ("cpu:0", "null:0", "null:1"), PlaceOptions(n_gpu_layers="all")))
    with pytest.raises(OutOfMemory) as caught:
        blueprint.memory.check({})
    error, needed = caught.value, {m.device.name: m for m in blueprint.memory.devices}
    assert (error.device, error.free) == ("null:1", 4096)
    assert error.requested == needed["null:1"].allocated_bytes and error.hint
    assert not allocated


def test_hosts_share_their_memory() -> None:
    def host(name: str) -> Device:
        return Device(name, "", 1000, is_host=True)

    plan = MemoryPlan([DeviceMemory(host(n), mapped_bytes=10**6, kv_bytes=400)
                       for n in ("cpu:0", "cpu:1")])
    plan.check({"cpu:0": 800, "cpu:1": 800})
    with pytest.raises(OutOfMemory) as caught:
        plan.check({"cpu:0": 799, "cpu:1": 799})
    assert (caught.value.device, caught.value.free) == ("cpu:1", 399)


def test_cache_bytes() -> None:
    spec = KVSpec(0, n_kv_heads=3, k_dim=64, v_dim=32)
    assert kv_bytes(spec, KVLayout(8, 5, "F16", "F32")) == (8 * 5 * 3 * 64 * 2, 8 * 5 * 3 * 32 * 4)
    assert kv_bytes(spec, KVLayout(8, 5, "Q8_0", "Q8_0")) == (8 * 5 * 3 * 68, 8 * 5 * 3 * 34)


def test_printed(tiny: Tiny) -> None:
    plan = tiny.plan("cpu:0", "null:0", place=PlaceOptions(n_gpu_layers=2))
    text = str(plan.blueprint.memory)
    assert [line.split()[0] for line in text.splitlines()] == ["device", "cpu:0", "null:0"]


def test_a_full_device_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Device("null:0", "", 32_000)
    monkeypatch.setattr(backend_of("null"), "free_bytes", lambda device: 999)
    assert room([card]) == {"null:0": 0}
    assert room([replace(card, is_pretend=True)]) == {"null:0": 999}


def gpu(name: str = "null:0", memory_bytes: int = 1000) -> Device:
    return Device(name, "an integrated GPU", memory_bytes, commits_host_memory=True)


HOST = Device("cpu:0", "", 1000, is_host=True)


@pytest.mark.parametrize("gpu_first", [True, False])
def test_an_integrated_gpu_shares_the_memory_of_the_host(gpu_first: bool) -> None:
    memories = [DeviceMemory(gpu(), weight_bytes=500), DeviceMemory(HOST, kv_bytes=400)]
    plan = MemoryPlan(memories if gpu_first else memories[::-1])
    plan.check({"cpu:0": 900, "null:0": 900})
    with pytest.raises(OutOfMemory) as caught:
        plan.check({"cpu:0": 899, "null:0": 899})
    assert (caught.value.device, caught.value.free) == ("null:0", 499)
    with pytest.raises(OutOfMemory) as caught:
        plan.check({"cpu:0": 1000, "null:0": 499})
    assert (caught.value.device, caught.value.free) == ("null:0", 499)
    two = MemoryPlan([DeviceMemory(gpu(f"null:{i}"), weight_bytes=500) for i in range(2)])
    two.check({"null:0": 1000, "null:1": 1000})
    with pytest.raises(OutOfMemory):
        two.check({"null:0": 999, "null:1": 999})


def test_what_a_device_on_the_hosts_memory_gives_back() -> None:
    card = Device("null:1", "", 1000)
    free = {"cpu:0": 100, "null:0": 100, "null:1": 100}
    given = [(gpu(), 30), (HOST, 5), (card, 7)]
    assert with_more(free, [gpu(), HOST, card], given) == {
        "cpu:0": 135, "null:0": 135, "null:1": 107}
    assert with_more(free, [gpu(memory_bytes=110), HOST], given) == {"cpu:0": 135, "null:0": 110}


@pytest.mark.parametrize("gpu_first", [True, False])
def test_caches_on_one_memory(gpu_first: bool) -> None:
    """Both caches grow into what both devices leave, the GPU's by an eighth."""
    spec, layout = KVSpec(0, 1, 1, 1), KVLayout(1, 1, "F16", "F16")
    per_block = sum(kv_bytes(spec, layout))
    memories = [DeviceMemory(gpu(), weight_bytes=500), DeviceMemory(HOST, weight_bytes=180)]
    plan = MemoryPlan(memories if gpu_first else memories[::-1])
    free = {"cpu:0": 1000, "null:0": 1000}
    assert n_blocks(plan, [(spec, HOST)], layout, free, 999) == 1 + 320 // 2 // per_block
    assert n_blocks(plan, [(spec, gpu())], layout, free, 999) == 1 + 320 // 8 // per_block
    both = [(spec, gpu()), (spec, HOST)]
    assert n_blocks(plan, both, layout, free, 999) == 1 + 320 // 8 // per_block


def test_room_beside_graphs_on_one_memory() -> None:
    other = Footprint([gpu(), HOST], [], {"null:0": 300, "cpu:0": 20}, {}, {}, {}, "other")
    assert room_beside({"null:0": 900, "cpu:0": 1000}, [gpu(), HOST], (), "main", {
        "other": other}) == {"null:0": 580, "cpu:0": 680}
