"""Placement by predicted time, on pretended devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from factory import Shape
from schedule.paper import graph_of, paper_file, random_devices, random_shape, sizes
from tiny_plan import Bytes, one_plan
from unladen.backends import backend_of
from unladen.backends.base import Device, KVLayout
from unladen.errors import OutOfMemory
from unladen.graph.graph import Graph
from unladen.schedule.blueprint import Blueprint, Maker, make_blueprint
from unladen.schedule.cut.experts import divide
from unladen.schedule.fit import free_bytes
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import Choice, PlaceOptions, choose
from unladen.types import Limits

N_COMBINATIONS, N_RIVALS = 200, 50
EQUAL = 1 + 1e-9
"""Relative difference up to which seconds count as equal: they are added up in another order.
Between equal ones prefill decides."""


def random_place(rng: np.random.Generator, n_layers: int, devices: list[Device], *, experts: bool
                 ) -> PlaceOptions:
    has_host = any(d.is_host for d in devices)
    others = [d for d in devices if not d.is_host]
    n = rng.choice(["auto", "all", "number"], p=[0.6, 0.2, 0.2])
    least = 0 if has_host else n_layers
    mode = str(rng.choice(["layer", "none", "row", "tensor"], p=[0.7, 0.1, 0.1, 0.1]))
    shares = None
    if mode != "none" and rng.random() < 0.2:
        shares = rng.uniform(0.1, 10, len(others)) + 1
    return PlaceOptions(
        n_gpu_layers=int(rng.integers(least, n_layers + 1)) if n == "number" else str(n),
        offload_order=str(rng.choice(["first", "last", "cost"])), split_mode=mode,
        tensor_split=None if shares is None else shares.tolist(),
        main_gpu=int(rng.integers(len(others))),
        cpu_moe=bool(has_host and rng.random() < 0.1),
        n_cpu_moe=int(rng.integers(n_layers + 1)) if has_host and rng.random() < 0.1 else None,
        kv_offload=not has_host or rng.random() < 0.9,
        embed_device=str(rng.choice([d.name for d in devices])) if rng.random() < 0.2 else None,
        head_device=str(rng.choice([d.name for d in devices])) if rng.random() < 0.2 else None,
        expert_split=(rng.uniform(0, 10, len(devices)) + 1).tolist()
        if experts and rng.random() < 0.4 else None)


def random_choice(rng: np.random.Generator, graph: Graph, devices: list[Device],
                  options: PlaceOptions) -> Choice:
    """A random choice that the options allow: any ranges of layers in the devices' order, with the
    host's at the given end; with shares, any number of layers."""
    if options.tensor_split is not None or options.split_mode in ("row", "tensor"):
        has_host = any(d.is_host for d in devices)
        order = str(rng.choice(["first", "last"])) if options.offload_order == "cost" else (
            options.offload_order)
        n_offloaded = int(rng.integers(graph.n_layers + 1)) if has_host else graph.n_layers
        return choose(graph.n_layers, devices, replace(options, offload_order=order), n_offloaded)
    host = [d for d in devices if d.is_host]
    others = [d for d in devices if not d.is_host]
    if options.split_mode == "none":
        others = [others[options.main_gpu]]
    host_last = options.offload_order == "first" or (options.offload_order == "cost"
                                                     and rng.random() < 0.5)
    order = others + host if host_last else host + others
    kept = [d for d in order if rng.random() < 0.7] or [order[int(rng.integers(len(order)))]]
    borders = np.sort(rng.integers(0, graph.n_layers + 1, len(kept) - 1)).tolist()
    layers = [d for d, a, b in zip(kept, [0, *borders], [*borders, graph.n_layers], strict=True)
              for _ in range(b - a)]
    named = {d.name: d for d in devices}
    embed = [layers[0], *host] if options.embed_device is None else [named[options.embed_device]]
    head = [layers[-1], *host] if options.head_device is None else [named[options.head_device]]
    n_cpu_moe = options.n_cpu_moe
    if n_cpu_moe is None:
        is_open = bool(host) and options.expert_split is None and rng.random() < 0.7
        n_cpu_moe = int(rng.integers(graph.n_layers + 1)) if is_open else 0
    return Choice(tuple(layers), embed[int(rng.integers(len(embed)))],
                  head[int(rng.integers(len(head)))], n_cpu_moe)


def check_rivals(rng: np.random.Generator, auto: Blueprint, graph: Graph, devices: list[Device]
                 ) -> None:
    seconds = auto.predict()[0].seconds
    graph = divide(graph, devices, auto.options.place)
    rivals = dict.fromkeys(random_choice(rng, graph, devices, auto.options.place)
                           for _ in range(N_RIVALS))
    for choice in rivals:
        rival = Maker(graph, auto.limits, auto.layout, auto.options, devices).blueprint_of(
            choice, quiet=True)
        if rival.predict()[0].seconds * EQUAL < seconds:
            assert not legal(rival), "\n".join(
                f"{[d.name for d in x.layers]} {x.choice.embed.name} {x.choice.head.name} "
                f"{x.choice.n_cpu_moe} {x.predict()[0]}\n{x.memory}" for x in (auto, rival)
            ) + f"\n{devices}\n{auto.options.place}\n{auto.limits}"


def legal(plan: Blueprint) -> bool:
    """Within each device."""
    return all(n >= 0 for n in plan.memory.left(free_bytes(plan.devices)).values())


@pytest.mark.parametrize("part", range(10))
def test_random_combinations(rng: np.random.Generator, part: int) -> None:
    """No device is exceeded, plans take the planned bytes, and "auto" finds the best placement."""
    seen = {"ran": 0, "full": 0, "compared": 0}
    for _ in range(N_COMBINATIONS // 10):
        shape = random_shape(rng)
        file = paper_file(shape, str(rng.choice(["F16", "Q8_0", "Q4_K", "Q6_K"])))
        graph = graph_of(file)
        limits, layout = sizes(rng, shape)
        devices = random_devices(rng, sum(t.nbytes for t in file.tensors.values()))
        place = random_place(rng, graph.n_layers, devices, experts=shape.n_experts > 0)
        options = PlanOptions(devices, place, use_mmap=bool(rng.integers(2)))
        made = make_blueprint(graph, limits, layout, options)
        free = free_bytes(made.devices)
        if min(made.memory.left(free).values()) < 0:
            seen["full"] += 1
            with pytest.raises(OutOfMemory):
                made.memory.check(free)
        else:
            seen["ran"] += 1
            check_taken(made, file.data)
        if place.n_gpu_layers == "auto" and legal(made):
            seen["compared"] += 1
            check_rivals(rng, made, graph, devices)
    assert min(seen.values()) > 0, seen


def check_taken(made: Blueprint, data: Callable[[str], Bytes]) -> None:
    plans = one_plan(made, data)
    plan = plans.main
    for memory in plans.memory().devices:
        device = memory.device
        taken = backend_of(device.name).used_bytes(device.name)  # type: ignore[attr-defined]
        assert taken == memory.taken_bytes <= device.memory_bytes
        assert abs(taken - memory.allocated_bytes) <= 0.01 * memory.allocated_bytes
    plan.batch.n_tokens = plan.batch.n_outputs = plan.batch.n_seqs = 1
    plan.run()
    assert plan.output("logits").shape[0] == 1


def free_on(monkeypatch: pytest.MonkeyPatch, free: dict[str, int]) -> None:
    """Let devices of the pretended backend say that they have as many bytes ``free``."""
    monkeypatch.setattr(backend_of("null"), "free_bytes", lambda device: free[device.name])


def test_a_full_card_doesnt_disturb_the_others(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than the margin is free on one card; layers go to the other one as far as they fit."""
    shape = Shape("llama", n_layers=6, n_embd=512, n_heads=8, n_kv_heads=4, k_dim=64, n_rot=64,
                  n_ff=1536, n_vocab=1000)
    graph = graph_of(paper_file(shape, "Q8_0"))
    limits, layout = Limits(32, 8, 1, 8, 8, 32), KVLayout(32, 8, "F16", "F16")
    cards = [Device(f"null:{i}", "a card", 1 << 30, 1e12, 1e14, link_bandwidth=2e10,
                    link_latency_s=1e-6, launch_s=1e-6) for i in range(2)]
    host = Device("null:9", "a host", 1 << 40, 5e10, 1e12, is_host=True)
    free = {"null:0": 1 << 20, "null:1": (1 << 25) + (10 << 20), "null:9": 1 << 40}
    free_on(monkeypatch, free)
    made = make_blueprint(graph, limits, layout, PlanOptions([*cards, host], probe=False))
    assert {d.name for d in made.layers} == {"null:1", "null:9"}
    made.memory.check(free)


@pytest.mark.parametrize("use_mmap", [True, False])
@pytest.mark.parametrize("has_card", [True, False])
def test_an_integrated_gpu_and_the_host_fit_together(
        monkeypatch: pytest.MonkeyPatch, use_mmap: bool, has_card: bool) -> None:
    """Whatever their memory holds, the plan fits if one does, and the search counts few."""
    shape = Shape("llama", n_layers=8, n_embd=512, n_heads=8, n_kv_heads=8, k_dim=64, n_rot=64,
                  n_ff=1536, n_vocab=1000)
    graph = graph_of(paper_file(shape, "Q8_0"))
    limits, layout = Limits(32, 8, 1, 64, 64, 32), KVLayout(32, 64, "F16", "F16")
    gpu = Device("null:0", "integrated", 1 << 30, 1e11, 1e13, link_bandwidth=2e10,
                 link_latency_s=1e-6, launch_s=1e-6, commits_host_memory=True)
    card = Device("null:1", "a card", 16 << 20, 1e12, 1e14, link_bandwidth=2e10,
                  link_latency_s=1e-6, launch_s=1e-6)
    host = Device("null:9", "a host", 1 << 30, 5e10, 1e12, is_host=True)
    devices = [gpu, *[card] * has_card, host]
    options = PlanOptions(devices, PlaceOptions(stream_weights=False), use_mmap=use_mmap,
                          probe=False)
    counted = []
    monkeypatch.setattr(Maker, "_left", lambda self, *given, left=Maker._left: (
        counted.append(1), left(self, *given))[1])
    fitting, on_gpu = set(), set()
    for n in range(10, 120, 5):
        free = {"null:0": n << 20, "null:1": 16 << 20, "null:9": n << 20}
        free_on(monkeypatch, free)
        made = make_blueprint(graph, limits, layout, options)
        alone = Maker(graph, limits, layout, options, devices).blueprint_of(
            choose(graph.n_layers, devices, options.place, 0), quiet=True)
        if min(made.memory.left(free).values()) >= 0:
            assert made.memory.needed_on("null:0") + made.memory.needed_on("null:9") <= n << 20
            fitting.add(n)
            on_gpu.add(sum(d == gpu for d in made.layers))
        else:
            assert min(alone.memory.left(free).values()) < 0
    assert fitting and (has_card or 10 not in fitting)
    assert {0, 5} <= on_gpu or not use_mmap, on_gpu
    assert len(counted) < 22 * 5, len(counted)
