"""Values between devices: correct from every source, and waited for only where necessary."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest

import shared_experts
from delayed import DelayedBackend, Event
from delayed import delayed as delayed
from factory import Shape, write_model
from tiny_model import N_VOCAB
from tiny_plan import LAYOUT, LIMITS, Feed, Tiny, fill, steady
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Buffer, Program
from unladen.errors import BackendNotInitialised
from unladen.graph.batch import Batch
from unladen.runtime.crossing import Crossing
from unladen.runtime.plan import Plan
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.cut.segments import CopyStep, RunStep
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions

CLOSE = 1e-4
"""Share of the largest logit by which devices may differ: a few thousand float32 roundings."""


def test_a_step_is_started_on_all_devices_without_waiting(
        tiny: Tiny, tokens: list[int], delayed: DelayedBackend) -> None:
    """Also two steps, where the second one reads the caches that the first one wrote."""
    place = PlaceOptions(tensor_split=[1, 1, 2])
    plan = tiny.plan("delayed:0", "delayed:1", "delayed:2", place=place)
    with delayed.stopped():
        for start, stop in ((0, 16), (16, 21)):
            fill(plan, tokens[start:stop], start)
            plan.run()
    assert not [e for e in delayed.log if e.kind == "wait"]
    whole = tiny.plan("reference:0")
    for start, stop in ((0, 16), (16, 21)):
        fill(whole, tokens[start:stop], start)
        whole.run()
    np.testing.assert_array_equal(plan.output("logits"), whole.output("logits"))


@pytest.mark.parametrize("names", [
    ("delayed:0", "cpu:0"), ("cpu:0", "delayed:0"), ("delayed:1", "reference:0", "delayed:0"),
    ("reference:0", "cpu:0", "delayed:0"), ("wgpu:0", "delayed:0", "cpu:0"),
    ("delayed:0", "wgpu:0"), ("wgpu:0", "wgpu:1", "reference:0")], ids="-".join)
def test_any_mixture_computes_the_same(tiny: Tiny, tokens: list[int], feed: Feed,
                                       delayed: DelayedBackend, names: tuple[str, ...],
                                       rng: np.random.Generator) -> None:
    expected = feed(tiny.plan("reference:0"), tokens)
    place = PlaceOptions(split_mode="none", override_tensor={
        pattern: str(rng.choice(names)) for pattern in (
            "attn_q|attn_qkv", "ffn_down", r"blk\.1\.", "token_embd", "output", "norm")})
    try:
        plan = tiny.plan(*names, place=place, backend=BackendOptions(precise=True))
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    got = feed(plan, tokens)
    assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max(), place


def test_a_device_goes_on_before_the_host_waits(
        tmp_path: Path, tokens: list[int], feed: Feed, rng: np.random.Generator,
        delayed: DelayedBackend) -> None:
    """Device and host both have experts of a layer: the device begins with its own experts while
    its values are on their way to the host."""
    shape = Shape("qwen3moe", n_layers=3, n_embd=64, n_experts=4, k_dim=16)
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape), tokens, feed,
                  rng, CLOSE)
    place = PlaceOptions(n_gpu_layers="all", expert_split=[0.5, 0.5], stream_weights=False)
    plan = tiny.plan("delayed:0", "cpu:0", place=place, backend=BackendOptions(precise=True))
    steps = plan.blueprint.steps
    going_on = [(a, b) for a, b in itertools.pairwise(steps)
                if isinstance(a, CopyStep) and isinstance(b, RunStep) and a.source == b.device
                and not a.source.is_host and a.target.is_host]
    assert len(going_on) == shape.n_layers
    expected = feed(tiny.plan("reference:0"), tokens)
    assert np.abs(feed(plan, tokens) - expected).max() < CLOSE * np.abs(expected).max()
    fill(plan, tokens[:9], 0)
    delayed.log.clear()
    plan.run()
    started = [e for e in delayed.log if e.kind != "done"]
    for _, run in going_on:
        at = started.index(Event("start", "delayed:0", f"run {run.nodes[0].name}"))
        assert started[at - 1].what == "fetch" and started[at + 1].kind == "wait"


@pytest.mark.parametrize("names", list(itertools.product(["cpu:0", "delayed:0", "wgpu:0"],
                                                         ["reference:0", "delayed:1", "wgpu:1"])),
                         ids="-".join)
def test_one_value_after_another(names: tuple[str, str], delayed: DelayedBackend,
                                 rng: np.random.Generator) -> None:
    """Some values are sent and never waited for, as in a cancelled step; some have no rows."""
    backends = [backend_of(name) for name in names]
    try:
        devices = [b.open(n, BackendOptions()) for b, n in zip(backends, names, strict=True)]
    except BackendNotInitialised as error:
        pytest.skip(error.message)
    batch = Batch.empty(LIMITS)
    source, target = (b.alloc(d, 4096, "arena") for b, d in zip(backends, devices, strict=True))
    staging: Buffer | None = None
    if not devices[0].is_host:
        staging = backends[0].alloc(devices[0], 4 * LIMITS.n_tokens * 8, "staging")
    crossing = Crossing(batch, ("T", 8), source, 256, target, 512, staging)
    truth = np.zeros(4096, np.uint8)
    for _ in range(20):
        data = rng.integers(0, 256, 4096, np.uint8)
        backends[0].write(source, data)
        batch.n_tokens = int(rng.integers(0, LIMITS.n_tokens + 1))
        crossing.send()
        backends[0].write(source, np.zeros(4096, np.uint8))
        if staging is None or rng.integers(3):
            crossing.arrive()
            n = 4 * 8 * batch.n_tokens
            truth[512:512 + n] = data[256:256 + n]
            np.testing.assert_array_equal(backends[1].read(target, 4096), truth)
        elif backends[0] is backends[1]:
            truth = backends[1].read(target, 4096).copy()  # a copy on devices is never dropped


def test_segments_hold_what_is_their_own(tiny: Tiny, delayed: DelayedBackend) -> None:
    plan = tiny.plan("delayed:0", "cpu:0", "delayed:1", place=PlaceOptions(n_gpu_layers=3))
    for device, program in plan._programs:
        segment = getattr(program, "segment")  # noqa: B009 - opaque to everyone but tests
        assert set(segment.weights) == {w.name for n in segment.nodes for w in n.weights.values()}
        assert set(segment.kv) == {n.state.layer for n in segment.nodes if n.state is not None}
        assert {p.buffer.device for p in segment.weights.values()} <= {device}
        assert {b.device for kv in segment.kv.values() for b in (kv.k, kv.v)} <= {device}


def addresses(plan: Plan) -> list[tuple[int, ...]]:
    batch = [getattr(plan.batch, name).ctypes.data for name in (
        "tokens", "positions", "seq_of", "q_start", "kv_len", "block_table", "out_rows")]
    found = [tuple(batch)]
    for _, program in plan._programs:
        segment = getattr(program, "segment")  # noqa: B009 - opaque to everyone but tests
        assert segment.batch is plan.batch
        found.append((segment.arena.data.ctypes.data, *segment.offsets.values(), *segment.scratch))
    return found


def test_addresses_stay_within_a_class_and_beyond(tiny: Tiny, tokens: list[int]) -> None:
    """Addresses stay the same within a class of steps, so a driver's record of one step serves all
    steps of the class."""
    plan = tiny.plan("cpu:0", "reference:0")
    before, seen = addresses(plan), set()
    for n in (1, 2, 3, 5, 8, 16, 1):
        fill(plan, [t % N_VOCAB for t in tokens[:n]], 0)
        seen.add(plan.batch.size_class)
        assert n <= plan.batch.size_class.n_tokens <= min(2 * n, LIMITS.n_tokens)
        plan.run()
        assert addresses(plan) == before
    assert len(seen) == 5 and {c.n_tokens for c in seen if c.is_decode} == {1}


def test_one_blueprint_makes_two_plans(tiny: Tiny, tokens: list[int], feed: Feed,
                                       delayed: DelayedBackend) -> None:
    """The second plan opens the devices again that were closed with the first one."""
    blueprint = make_blueprint(tiny.graph, LIMITS, LAYOUT, PlanOptions(("delayed:0", "delayed:1")))
    plan = tiny.made(blueprint)
    expected = feed(plan.main, tokens)
    plan.close()
    assert delayed.n_closed == 2
    np.testing.assert_array_equal(feed(tiny.made(blueprint).main, tokens), expected)


def test_the_device_works_while_the_host_computes_experts(
        tmp_path: Path, tokens: list[int], feed: Feed, rng: np.random.Generator,
        delayed: DelayedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace of a step: each layer's shared experts are begun and done on the device before the
    host has ended the routed ones, which it holds open until then."""
    shape = shared_experts.SHARED_EXPERTS
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: shared_experts.write(tmp_path / "m.gguf", rng), tokens, feed,
                  rng, CLOSE)
    cpu = backend_of("cpu")
    run, n_runs = cpu.run, 0

    def held_open(program: Program) -> None:
        nonlocal n_runs
        started = [e for e in delayed.log if e.kind == "start"][-1]
        assert started.what.startswith("run ") and "shexp" in started.what, started
        run(program)
        n_runs += 1
        give_up = time.monotonic() + 60
        while Event("done", "delayed:0", started.what) not in delayed.log:
            assert time.monotonic() < give_up, f"{started} waits for the host"
            time.sleep(1e-3)
    monkeypatch.setattr(cpu, "run", held_open)
    place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, stream_weights=False)
    plan = tiny.plan("delayed:0", "cpu:0", place=place, backend=BackendOptions(precise=True))
    expected = feed(tiny.plan("reference:0"), tokens)
    assert np.abs(feed(plan, tokens) - expected).max() < CLOSE * np.abs(expected).max()
    n_runs = 0
    fill(plan, tokens[:9], 0)
    plan.run()
    assert n_runs == shape.n_layers
