"""The most used experts on a device, the others on the host: the same results for any residency."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shared_experts
from delayed import DelayedBackend, DelayedBuffer
from delayed import delayed as delayed
from emulator.backend import FEATURES_VARIABLE, MODE_VARIABLE, plugged_in
from factory import Shape, write_model
from tiny_plan import LAYOUT, LIMITS, Feed, Tiny, fill, steady
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.errors import BackendNotInitialised, UnsupportedOp
from unladen.runtime import expert_cache
from unladen.runtime.expert_cache import LayerCache
from unladen.runtime.plan import Plan
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.cut.segments import FetchStep, NoteStep, RunStep
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions
from unladen.types import MAIN

CLOSE = 1e-5
"""Share of the largest logit by which results may differ: some hundred float32 roundings."""
PLAIN = Shape("qwen3moe", n_layers=3, n_embd=64, n_experts=7, n_used=3, k_dim=16)


@pytest.fixture
def tokens(tokens: list[int]) -> list[int]:
    return [t % PLAIN.n_vocab for t in tokens]


@pytest.fixture(params=["plain", "shared"])
def model(request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator, feed: Feed,
          tokens: list[int]) -> Iterator[Tiny]:
    path = tmp_path / "m.gguf"
    found = steady(lambda: write_model(path, rng, PLAIN) if request.param == "plain" else
                   shared_experts.write(path, rng), tokens, feed, rng, CLOSE)
    yield found
    found.file.close()


def planned(tiny: Tiny, device: str, n: int, **options: object) -> Plan:
    wishes: dict[str, Any] = {"stream_weights": False, **options}
    place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=n, **wishes)
    try:
        return tiny.plan(device, "cpu:0", place=place, backend=BackendOptions(precise=True))
    except BackendNotInitialised as error:
        pytest.skip(error.message)


def shuffle(layer: LayerCache, rng: np.random.Generator) -> None:
    """Put any experts into any slots; some slots stay empty."""
    for slot, expert in enumerate(rng.permutation(layer.paper.n_experts)[:layer.paper.n_slots]):
        layer.replace(slot, int(expert))
        if rng.random() < 0.2:
            layer.resident[slot] = -1
    layer.mend()


@pytest.mark.parametrize("device", ["delayed:0", "opencl:0", "wgpu:0"])
def test_any_residency_computes_the_same(model: Tiny, tokens: list[int], feed: Feed, device: str,
                                         delayed: DelayedBackend, rng: np.random.Generator) -> None:
    expected = feed(model.plan("reference:0"), tokens)
    for n in (1, 3, 99):
        plan = planned(model, device, n)
        layers = list(plan.experts.layers.values())
        assert len(layers) == 3
        assert {x.paper.n_slots for x in layers} == {min(n, layers[0].paper.n_experts - 1)}
        for _ in range(3):
            got = feed(plan, tokens)
            assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max(), n
            for layer in layers:
                shuffle(layer, rng)
        # The same contents give the same bits.
        again = [feed(plan, tokens[:8]) for _ in range(2) if not frozen(layers)]
        np.testing.assert_array_equal(*again)


def frozen(layers: list[LayerCache]) -> None:
    """Nothing is replaced in the next steps."""
    for layer in layers:
        layer.use[:] = 0


@pytest.mark.parametrize("quant", ["Q8_0", "Q4_0", "Q4_K", "F16"])
def test_experts_are_replaced_in_the_formats_of_the_device(
        quant: str, tmp_path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch,
        rng: np.random.Generator) -> None:
    """Matrix units read tiles, and the host has blocks; some formats can't be written."""
    monkeypatch.setenv(FEATURES_VARIABLE, "subgroups,int_dot,mma")
    monkeypatch.setenv(MODE_VARIABLE, "fast")
    shape = replace(PLAIN, n_embd=256, n_ff=256, n_layers=2, k_dim=64)
    tokens = rng.integers(10, 250, 6).tolist()
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape, quant=quant), tokens, feed,
                  rng, CLOSE)
    with plugged_in():
        plan = planned(tiny, "emulator:0", 3)
        layers = list(plan.experts.layers.values())
        assert {target.quant for x in layers for target in x.device.values()} == {quant + "/tiles"}
        expected = feed(tiny.plan("reference:0"), tokens)
        for _ in range(2):
            for layer in layers:
                shuffle(layer, rng)
            got = feed(plan, tokens)
            assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max()
    tiny.file.close()


def test_hot_and_cold_experts_are_computed_at_the_same_time(model: Tiny) -> None:
    place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=3, stream_weights=False)
    made = make_blueprint(model.graph, LIMITS, LAYOUT, PlanOptions(("null:0", "cpu:0"), place))
    steps, n_cold = list(made.steps), 0
    for before, step, after in zip(steps, steps[1:], steps[2:], strict=False):
        if isinstance(step, RunStep) and step.device.is_host and step.nodes[-1].op == "moe":
            n_cold += 1
            assert isinstance(before, RunStep) and before.device.name == "null:0"
            assert before.nodes[0].op == "moe"
            assert isinstance(after, NoteStep) and after.node == step.nodes[-1]
    assert n_cold == 3
    (line,) = [x for x in made.offloaded() if "are kept on" in x]
    (cached, *_) = made.cached
    assert f"3 of {cached.n_experts} experts in each of 3 layers are kept on null:0" in line


def test_bytes_are_counted_as_they_are_taken(model: Tiny, delayed: DelayedBackend) -> None:
    sizes = []
    for n in (0, 2, 4):
        place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=n)
        plans = model.plans("delayed:0", "cpu:0", place=place)
        for memory in plans.memory().devices:
            assert memory.taken_bytes == memory.allocated_bytes
        sizes += [m.weight_bytes for m in plans.memory().devices if m.device.name == "delayed:0"]
        cached = plans.main.experts.layers.values()
        assert all(x.paper.nbytes * 2 == n * sum(
            w.nbytes_in(w.quant) * 2 // w.shape[0] for role, w in x.paper.cold.weights.items()
            if role in ("gate", "up", "down")) for x in cached)
        if n == 4:
            assert sizes[2] - sizes[1] == sum(x.paper.nbytes for x in cached) // 2


def test_automatic_takes_half_of_what_is_left(model: Tiny) -> None:
    card = backend_of("null").open("null:0", BackendOptions())
    host = backend_of("cpu").open("cpu:0", BackendOptions())

    def made(n: Any, memory: int) -> dict[str, int]:
        place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=n, stream_weights=False)
        small = replace(card, memory_bytes=memory)
        blueprint = make_blueprint(model.graph, LIMITS, LAYOUT, PlanOptions((small, host), place))
        (n_slots,) = {x.n_slots for x in blueprint.cached} or {0}
        needed = next(m.needed_bytes for m in blueprint.memory.devices if m.device is small)
        return {"n_slots": n_slots, "needed": needed}
    bare = made(0, 1 << 40)["needed"]
    each = made(2, 1 << 40)["needed"] - made(1, 1 << 40)["needed"]
    assert made("auto", 1 << 40)["n_slots"] == shared_experts.SHARED_EXPERTS.n_experts - 1 or \
        made("auto", 1 << 40)["n_slots"] == PLAIN.n_experts - 1
    for n in (0, 1, 3):
        found = made("auto", bare + 2 * n * each + each)
        assert found["n_slots"] in (n - 1, n) and found["needed"] <= bare + 2 * n * each + each


def test_experts_that_are_used_come_and_others_go(
        model: Tiny, delayed: DelayedBackend, rng: np.random.Generator) -> None:
    """The host notes uses; contents follow them, in bounded steps, also when the use changes."""
    plan = planned(model, "delayed:0", 3)
    name, layer = next(iter(plan.experts.layers.items()))
    for favourites in ([4, 5, 6], [0, 2, 5]):
        n_moved = 0
        for _ in range(300):
            layer.note(np.array([favourites], np.float32))
            before = layer.counts.n_moved
            plan.experts.before_step()
            assert layer.counts.n_moved - before <= 1
            n_moved += layer.counts.n_moved - before
        assert sorted(layer.resident) == favourites
        assert n_moved <= len(favourites)
    counts = layer.counts
    assert counts.n_chosen == 2 * 300 * 3 and 0 < counts.n_hits < counts.n_chosen
    assert counts.moved_bytes == counts.n_moved * layer.paper.nbytes // layer.paper.n_slots
    # A use that comes and goes moves nothing.
    for i in range(100):
        layer.note(np.array([[0, 2, 5 if i % 2 else 6]], np.float32))
        plan.experts.before_step()
    assert layer.counts.n_moved == counts.n_moved
    assert name.endswith("@cpu:0")


def test_what_steps_choose_is_noted(model: Tiny, tokens: list[int], delayed: DelayedBackend
                                    ) -> None:
    plan = planned(model, "delayed:0", 3)
    fill(plan, tokens[:9], 0)
    plan.run()
    for layer in plan.experts.layers.values():
        n_used = layer.paper.cold.int_attr("n_used")
        assert layer.counts.n_chosen == 9 * n_used
        assert layer.use.sum() == pytest.approx(n_used) and layer.use.max() <= 1
        hits = round(9 * layer.use[:3].sum())
        assert layer.counts.n_hits == hits
    total = plan.experts.counts()
    assert total.n_chosen == 3 * 9 * n_used and 0 <= total.hit_rate <= 1


def test_a_replacement_that_is_interrupted(model: Tiny, tokens: list[int], feed: Feed,
                                           delayed: DelayedBackend,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slot counts as empty until the next step begins, whatever was copied."""
    plan = planned(model, "delayed:0", 3)
    expected = feed(model.plan("reference:0"), tokens)
    layer = next(iter(plan.experts.layers.values()))
    write, n = delayed.write, 0

    def interrupted(*arguments: object) -> None:
        nonlocal n
        n += 1
        if n == 2:
            raise KeyboardInterrupt
        write(*arguments)  # type: ignore[arg-type]
    layer.use[:] = 0
    layer.use[5] = 9
    with monkeypatch.context() as patch:
        patch.setattr(delayed, "write", interrupted)
        fill(plan, tokens[:4], 0)
        with pytest.raises(KeyboardInterrupt):
            plan.run()
    assert layer.is_stale and (layer.resident == -1).sum() == 1
    frozen(list(plan.experts.layers.values()))
    got = feed(plan, tokens)
    assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max()
    assert not layer.is_stale


def test_prompts_stream_what_is_cold(model: Tiny, tokens: list[int], feed: Feed,
                                     delayed: DelayedBackend, rng: np.random.Generator) -> None:
    """In large steps the cold experts pass through the device too, with the table of then."""
    plan = planned(model, "delayed:0", 3, stream_weights=True)
    assert plan.blueprint.streamed is not None
    assert any(isinstance(s, FetchStep) for s in plan.blueprint.streamed.steps)
    assert not any(isinstance(s, NoteStep) for s in plan.blueprint.streamed.steps)
    expected = feed(model.plan("reference:0"), tokens)
    for _ in range(3):
        got = feed(plan, tokens)
        assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max()
        for layer in plan.experts.layers.values():
            shuffle(layer, rng)


def test_the_next_plan_takes_the_cache_over(model: Tiny, tokens: list[int], feed: Feed,
                                            delayed: DelayedBackend, rng: np.random.Generator
                                            ) -> None:
    place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=3, stream_weights=False)
    options = PlanOptions(("delayed:0", "cpu:0"), place, BackendOptions(precise=True))
    first = model.made(make_blueprint(model.graph, LIMITS, LAYOUT, options))
    for layer in first.main.experts.layers.values():
        shuffle(layer, rng)
    expected = feed(first.main, tokens)
    second = model.made(make_blueprint(model.graph, LIMITS, LAYOUT, options), first.keep())
    assert all(a is b for a, b in zip(second.main.experts.layers.values(),
                                      first.main.experts.layers.values(), strict=True))
    frozen(list(second.main.experts.layers.values()))
    got = feed(second.main, tokens)
    assert np.abs(got - expected).max() < CLOSE * np.abs(expected).max()
    # Another size is another memory, which begins anew.
    other = PlanOptions(("delayed:0", "cpu:0"), PlaceOptions(
        n_gpu_layers="all", cpu_moe=True, expert_cache=2, stream_weights=False),
        BackendOptions(precise=True))
    third = model.made(make_blueprint(model.graph, LIMITS, LAYOUT, other), second.keep())
    layer = next(iter(third.main.experts.layers.values()))
    assert list(layer.resident) == [0, 1] and not layer.counts.n_chosen
    assert np.abs(feed(third.main, tokens) - expected).max() < CLOSE * np.abs(expected).max()


def test_memory_goes_with_its_plan(model: Tiny, delayed: DelayedBackend) -> None:
    """A plan that can't use what was kept lets it go, and so does one that has ended."""
    def made(n: int) -> BlueprintSet:
        place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=n)
        return BlueprintSet.of({MAIN: make_blueprint(
            model.graph, LIMITS, LAYOUT, PlanOptions(("delayed:0", "cpu:0"), place))})
    plans = PlanSet(made(3), lambda key: model.data(key.tensor))
    layer = next(iter(plans.main.experts.layers.values()))
    buffers = [weakref.ref(placed.buffer.data) for placed in layer.device.values()
               if isinstance(placed.buffer, DelayedBuffer)]
    assert len(buffers) == len(layer.device)
    del layer
    kept = plans.keep()
    kept.restrict(made(3))
    assert len(kept.experts) == 3
    kept.restrict(made(2))
    assert not kept.experts
    assert all(ref() is not None for ref in buffers)
    plans.close()
    gc.collect()
    assert all(ref() is None for ref in buffers)


def test_a_device_that_lacks_the_ops(model: Tiny, delayed: DelayedBackend,
                                     caplog: pytest.LogCaptureFixture) -> None:
    delayed.lacking = ("choose_experts",)
    plan = planned(model, "delayed:0", 3)
    assert not plan.blueprint.cached
    assert "expert_cache=3 has no effect: delayed:0 can't choose" in caplog.text
    place = PlaceOptions(n_gpu_layers="all", cpu_moe=True, expert_cache=3)
    with pytest.raises(UnsupportedOp, match="expert_cache=3"):
        model.plan("delayed:0", "cpu:0", place=place, strict=True)


def test_bounds_of_a_step(model: Tiny, delayed: DelayedBackend, monkeypatch: pytest.MonkeyPatch
                          ) -> None:
    plan = planned(model, "delayed:0", 3)
    layers = list(plan.experts.layers.values())
    for layer in layers:
        layer.use[:] = 0
        layer.use[5] = 9
    monkeypatch.setattr(expert_cache, "MOST_BYTES", 1)
    moved = []
    for _ in range(4):
        plan.experts.before_step()
        moved.append(plan.experts.counts().n_moved)
    assert moved == [1, 2, 3, 3]
