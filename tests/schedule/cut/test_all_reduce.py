"""Sums that several devices need: every device adds the parts in one order, and values cross once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delayed import DelayedBackend
from delayed import delayed as delayed
from factory import Shape, write_model
from schedule.paper import graph_of, paper_file
from tiny_plan import LAYOUT, LIMITS, Feed, fill, open_tiny, steady
from unladen.backends.base import Collective, Device, Place
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value
from unladen.schedule.blueprint import Blueprint, make_blueprint
from unladen.schedule.cut import all_reduce
from unladen.schedule.cut.segments import CopyStep, ReduceStep, RunStep, Step
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions

SHAPES = [Shape("llama", n_embd=64, n_heads=8, n_kv_heads=4, n_layers=3),
          Shape("llama", n_embd=64, n_heads=8, n_kv_heads=4, n_ff=192, biases=True, tied=True),
          Shape("gpt2", n_embd=64, n_kv_heads=4), Shape("qwen3", n_embd=64, k_dim=16),
          Shape("qwen3moe", n_embd=64, n_experts=4)]
ROUNDINGS = 300
"""As in ``test_shard.py``: the bound for sums in another order, in float32 roundings."""


def blueprint(shape: Shape, *devices: str, **place: object) -> Blueprint:
    options = PlaceOptions(split_mode="tensor", **place)  # type: ignore[arg-type]
    return make_blueprint(graph_of(paper_file(shape, "F32")), LIMITS, LAYOUT,
                          PlanOptions(devices, options))


def names(backend: str, n: int) -> list[str]:
    return [f"{backend}:{i}" for i in range(n)]


def hops(steps: Sequence[Step]) -> int:
    """How many copies a value depends on that depends on most: one after the other."""
    depth: dict[tuple[str, Value], int] = {}
    for step in steps:
        if isinstance(step, CopyStep):
            depth[step.target.name, step.value] = depth[step.source.name, step.value] + 1
        elif isinstance(step, RunStep):
            for node in step.nodes:
                reached = max((depth.get((step.device.name, v), 0) for v in node.inputs), default=0)
                depth |= {(step.device.name, v): reached for v in node.outputs}
    return max(depth.values())


def starts(steps: Sequence[Step]) -> int:
    return sum(isinstance(s, RunStep) for s in steps)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.arch}-{s.n_ff}")
def test_same_logits_in_every_run(tmp_path: Path, rng: np.random.Generator, tokens: list[int],
                                  feed: Feed, delayed: DelayedBackend, shape: Shape, n: int
                                  ) -> None:
    """As of one device within a bound; the same bits when computed again, though the devices are
    late at random."""
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape), tokens, feed,
                  rng, ROUNDINGS * 2.0 ** -24)
    whole = feed(tiny.plan("reference:0"), tokens)
    place = PlaceOptions(split_mode="tensor", main_gpu=int(rng.integers(n)))
    plan = tiny.plan(*names("delayed", n), place=place)
    assert bool(plan.blueprint.all_reduces) == (shape.n_experts == 0)
    divided = feed(plan, tokens)
    assert np.abs(divided - whole).max() <= ROUNDINGS * 2.0 ** -24 * np.abs(whole).max()
    np.testing.assert_array_equal(feed(plan, tokens), divided)


def test_nobody_waits(tmp_path: Path, rng: np.random.Generator, tokens: list[int],
                      delayed: DelayedBackend) -> None:
    tiny = open_tiny(write_model(tmp_path / "m.gguf", rng, SHAPES[0]))
    plan = tiny.plan(*names("delayed", 3), place=PlaceOptions(split_mode="tensor"))
    with delayed.stopped():
        fill(plan, [t % SHAPES[0].n_vocab for t in tokens[:16]], 0)
        plan.run()
    assert not [e for e in delayed.log if e.kind == "wait"]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_one_order_on_all_devices(n: int, delayed: DelayedBackend) -> None:
    made = blueprint(SHAPES[0], *names("delayed", n))
    home = {v: d.name for node, (d, _) in made.device_of.items() for v in node.outputs}
    maker = {v: node for node in made.graph.nodes for v in node.outputs}

    def added(value: Value) -> list[Value]:
        node: Node = maker[value]
        if node.op != "add" or node not in each.nodes:
            return [value]
        left, right = node.inputs
        return [*added(left), right]
    assert len(made.all_reduces) == 2 * SHAPES[0].n_layers
    for each in made.all_reduces:
        assert [home[v] for v in each.parts] == names("delayed", n)
        assert {home[v] for v in each.totals} == set(names("delayed", n))
        for total in each.totals:
            assert added(total) == list(each.parts)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_values_cross_once_for_a_sum(n: int, delayed: DelayedBackend,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to one device and back, and with fewer starts: one on each device for each sum."""
    n_sums = 2 * SHAPES[0].n_layers
    made = blueprint(SHAPES[0], *names("delayed", n)).steps
    monkeypatch.setattr(all_reduce, "MOST_DEVICES", 0)
    through_one = blueprint(SHAPES[0], *names("delayed", n)).steps
    # The first values go to all devices, and the logits to one; only the sums cross otherwise.
    assert hops(made) == n_sums + 2 and hops(through_one) == 2 * n_sums + 2
    assert starts(made) == n * (n_sums + 1) + 2 == starts(through_one) - (n - 1) * n_sums
    for steps, per_sum in ((made, n * (n - 1)), (through_one, 2 * (n - 1))):
        copies = [s for s in steps if isinstance(s, CopyStep)]
        # The others are those of the embeddings, or of their norm; of the rotations; of the logits.
        assert len(copies) == n_sums * per_sum + 3 * (n - 1)


def test_parts_are_copied_before_any_device_goes_on(delayed: DelayedBackend) -> None:
    """Otherwise a copy would wait for the work that its source got in the meantime."""
    made = blueprint(SHAPES[0], *names("delayed", 3))
    steps = made.steps
    for each in made.all_reduces:
        copied = [i for i, s in enumerate(steps) if isinstance(s, CopyStep)
                  and s.value in each.parts]
        assert len(copied) == 6 and copied == list(range(copied[0], copied[0] + 6))
        run = steps[copied[0] - 1]
        assert isinstance(run, RunStep) and each.parts[0] in run.nodes[-1].outputs


def test_devices_that_add_on_one(delayed: DelayedBackend) -> None:
    """The host's, which take turns; many; and more than two whose copies take two hops."""
    assert not blueprint(SHAPES[0], "cpu:0", "cpu:1").all_reduces
    assert not blueprint(SHAPES[0], *names("delayed", 5)).all_reduces
    assert not blueprint(SHAPES[0], *names("null", 3)).all_reduces
    assert not blueprint(SHAPES[0], "null:0", "delayed:0", "delayed:1").all_reduces
    assert blueprint(SHAPES[0], "null:0", "delayed:0").all_reduces


def test_nothing_is_computed_in_vain(delayed: DelayedBackend) -> None:
    """Neither what a mixture of experts on one device needs, nor what is for a device without
    heads, is computed elsewhere."""
    for shape in SHAPES:
        made = blueprint(shape, *names("delayed", 3), tensor_split=[1, 1, 2])
        read = {v for n in made.graph.nodes for v in n.inputs} | set(made.graph.outputs.values())
        unread = [n for n in made.graph.nodes if n.outputs and read.isdisjoint(n.outputs)]
        assert not unread


NAMES = ("blk.0.attn_out", "blk.0.attn_residual", "blk.1.ffn_norm", "blk.0.ffn_residual")


@pytest.mark.parametrize("n", [2, 3])
def test_values_that_are_changed(tmp_path: Path, rng: np.random.Generator, tokens: list[int],
                                 feed: Feed, delayed: DelayedBackend, n: int) -> None:
    """Every device goes on with what the host made of a value, and the host sees it whole."""
    tiny = open_tiny(write_model(tmp_path / "m.gguf", rng, SHAPES[0]))
    tokens = [t % SHAPES[0].n_vocab for t in tokens]

    def change(value: Value, array: np.ndarray[Any, Any], batch: Batch) -> np.ndarray[Any, Any]:
        return array * np.float32(1.5)
    changed = str(rng.choice(NAMES))
    options = {"changes": {changed: change}, "looked": [x for x in NAMES if x != changed]}
    whole = tiny.plan("reference:0", **options)
    plan = tiny.plan(*names("delayed", n), place=PlaceOptions(split_mode="tensor"), **options)
    expected, got = feed(whole, tokens), feed(plan, tokens)
    assert np.abs(expected - feed(tiny.plan("reference:0"), tokens)).max() > 1e-3
    assert np.abs(got - expected).max() <= ROUNDINGS * 2.0 ** -24 * np.abs(expected).max()
    for name in whole.blueprint.graph.outputs.keys() & plan.blueprint.graph.outputs.keys():
        if name in NAMES:
            np.testing.assert_allclose(plan.output(name), whole.output(name), atol=1e-3)


class Adding:
    """A library over ``devices``, which adds on the host when the devices come to it."""

    def __init__(self, backend: DelayedBackend, devices: Sequence[Device]) -> None:
        self.backend, self.devices, self.n_sums = backend, devices, 0

    def all_reduce(self, parts: Sequence[Place], totals: Sequence[Place], count: int) -> None:
        self.n_sums += 1
        assert [b.device for b, _ in parts] == [b.device for b, _ in totals] == list(self.devices)
        read = [self.backend.read(b, 4 * count, at).view(np.float32) for b, at in parts]
        total = np.sum(read, axis=0, dtype=np.float32)
        for buffer, at in totals:
            self.backend.write(buffer, total.view(np.uint8), at)


@pytest.fixture
def adding(delayed: DelayedBackend, monkeypatch: pytest.MonkeyPatch) -> list[Adding]:
    """The groups that plans have made of delayed devices, which have a library now."""
    made: list[Adding] = []

    def collective(devices: Sequence[Device]) -> Collective:
        made.append(Adding(delayed, devices))
        return made[-1]
    monkeypatch.setattr(delayed, "adds_with", lambda devices: f"adder of {len(devices)}",
                        raising=False)
    monkeypatch.setattr(delayed, "collective", collective, raising=False)
    return made


@pytest.mark.parametrize("n", [2, 3])
def test_a_library_adds(tmp_path: Path, rng: np.random.Generator, tokens: list[int], feed: Feed,
                        adding: list[Adding], n: int) -> None:
    """Once for each sum, in place of copies and additions, with the same logits."""
    tiny = open_tiny(write_model(tmp_path / "m.gguf", rng, SHAPES[0]))
    tokens = [t % SHAPES[0].n_vocab for t in tokens]
    place = PlaceOptions(split_mode="tensor", main_gpu=int(rng.integers(n)))
    plan = tiny.plan(*names("delayed", n), place=place)
    steps, n_sums = plan.blueprint.steps, 2 * SHAPES[0].n_layers
    sums = [s for s in steps if isinstance(s, ReduceStep)]
    assert len(sums) == n_sums and starts(steps) == n * (n_sums + 1) + 2
    assert sum(isinstance(s, CopyStep) for s in steps) == 3 * (n - 1)
    added = {node for each in plan.blueprint.all_reduces for node in each.nodes}
    assert not added & {node for s in steps if isinstance(s, RunStep) for node in s.nodes}
    divided = feed(plan, tokens)
    assert sum(group.n_sums for group in adding) == 3 * n_sums
    whole = feed(tiny.plan("reference:0"), tokens)
    assert np.abs(divided - whole).max() <= ROUNDINGS * 2.0 ** -24 * np.abs(whole).max()


def test_a_library_needs_a_part_on_each_device(adding: list[Adding]) -> None:
    """Here one device has no heads: it gets the others' parts of attention by copies."""
    made = blueprint(SHAPES[0], *names("delayed", 3), tensor_split=[1, 8, 8])
    assert {each.by for each in made.all_reduces if len(each.parts) < 3} == {""}
    assert {each.by for each in made.all_reduces if len(each.parts) == 3} <= {"adder of 3"}
    assert any(len(each.parts) < 3 for each in made.all_reduces)


def test_plans_say_how_sums_are_made(delayed: DelayedBackend, request: pytest.FixtureRequest
                                     ) -> None:
    n_sums = 2 * SHAPES[0].n_layers
    copied = blueprint(SHAPES[0], *names("delayed", 2))
    line = f"{n_sums} all-reduces a step over 2 devices, by "
    assert f"{line}copies of the parts" in copied.offloaded()
    assert copied.explain().count("; all-reduce by copies of the parts") == 2 * n_sums
    request.getfixturevalue("adding")
    by_library = blueprint(SHAPES[0], *names("delayed", 2))
    assert f"{line}adder of 2" in by_library.offloaded()
    assert by_library.explain().count("; all-reduce by adder of 2") == 2 * n_sums
    alone = "\n".join(blueprint(SHAPES[0], "delayed:0").offloaded())
    assert "all-reduces" not in alone


def test_plans_say_which_devices_share_layers(delayed: DelayedBackend) -> None:
    n, devices = SHAPES[0].n_layers, names("delayed", 2)
    made = blueprint(SHAPES[0], *devices)
    lines = made.offloaded()
    assert lines[0] == f"{n}/{n} layers divided over {', '.join(devices)}"
    assert not any("offloaded" in line for line in lines)
    assert all(made.held_on(name) == set(range(n)) for name in devices)
    alone = blueprint(SHAPES[0], "delayed:0")
    assert alone.offloaded()[0] == f"offloaded {n}/{n} layers to delayed:0"


def test_a_sum_is_predicted(adding: list[Adding]) -> None:
    """The devices wait for one another, and the link counts."""
    decode, prefill = blueprint(SHAPES[0], *names("delayed", 2)).predict()
    assert 0 < decode.terms["copies"] < prefill.terms["copies"] <= prefill.seconds
