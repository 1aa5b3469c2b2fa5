"""Experts divided over devices give the same results as undivided ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factory import Shape, write_model
from schedule.cut.test_shard import DEVICES, ROUNDINGS, check_order
from schedule.paper import graph_of, paper_file
from tiny_plan import LAYOUT, LIMITS, Feed, steady
from unladen import Model
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions, Device
from unladen.errors import InvalidArgument
from unladen.graph.batch import Batch
from unladen.graph.graph import Graph, Node
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext
from unladen.graph.ops.moe import first_expert
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.cut.experts import divide
from unladen.schedule.cut.segments import RunStep
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions, pins

SHAPES = [Shape("qwen3moe", n_embd=64, n_experts=7, n_used=3, k_dim=16),
          Shape("llama", n_embd=64, n_experts=4), Shape("llama", n_experts=5, n_used=5)]


def shares_of(rng: np.random.Generator, n: int) -> list[float]:
    return [*rng.uniform(0, 5, n - 1).tolist(), 2.0]


def divided(graph: Graph, n_devices: int, **options: Any) -> tuple[Graph, dict[Node, str]]:
    """The graph and where its parts go, by the name of the device."""
    defaults = BackendOptions()
    devices = [backend_of("cpu").open("cpu", defaults),
               *(backend_of("null").open(f"null:{i}", defaults) for i in range(n_devices - 1))]
    wishes = PlaceOptions(**options)
    result = divide(graph, devices, wishes)
    check_order(result)
    return result, {n: d.name for n, (d, _) in pins(result, devices, wishes, wishes.n_cpu_moe or 0
                                                    ).items()}


@pytest.mark.parametrize("quant", ["F32", "Q8_0"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.arch}-{s.n_experts}")
def test_same_logits(tmp_path: Path, rng: np.random.Generator, tokens: list[int], feed: Feed,
                     shape: Shape, quant: str) -> None:
    precise = BackendOptions(precise=True)
    tokens = [t % shape.n_vocab for t in tokens]
    tiny = steady(lambda: write_model(tmp_path / "m.gguf", rng, shape, quant=quant), tokens, feed,
                  rng, ROUNDINGS * 2.0 ** -24)
    whole = feed(tiny.plan("cpu:0", backend=precise), tokens)
    for n, mode in ((2, "layer"), (3, "layer"), (3, "row"), (2, "tensor")):
        place = PlaceOptions(expert_split=shares_of(rng, n), split_mode=mode)
        plan = tiny.plan(*DEVICES[:n], backend=precise, place=place)
        off = np.abs(feed(plan, tokens) - whole).max() / np.abs(whole).max()
        assert off <= ROUNDINGS * 2.0 ** -24, (place, off)


@pytest.mark.parametrize("shape", SHAPES[:2], ids=lambda s: s.arch)
def test_same_text(tmp_path: Path, rng: np.random.Generator, shape: Shape) -> None:
    path = write_model(tmp_path / "m.gguf", rng, shape)
    with Model(path, kv_type="f32") as model:
        text = model.generate("on the one", temperature=0.0, max_tokens=8).text
    with Model(path, kv_type="f32", devices=["cpu:0", "cpu:1"], expert_split=[0.5, 0.5]) as model:
        used = {line.split()[2] for line in model.placement().splitlines() if " moe " in line}
        assert used == {"cpu:0", "cpu:1"}
        assert model.generate("on the one", temperature=0.0, max_tokens=8).text == text
        stream = model.stream("on the one", temperature=0.0, max_tokens=8)
        for shares, _ in zip(([3, 1], [0, 1], None), stream, strict=False):
            model.place(expert_split=shares)
        list(stream)
        assert stream.result.text == text


def test_parts_add_up(rng: np.random.Generator) -> None:
    """Parts add up in float64, within its rounding; for some tokens a device has no expert."""
    graph, _ = divided(graph_of(paper_file(replace(SHAPES[0], n_layers=1), "F32")), 1)
    (node,) = [n for n in graph.nodes if n.op == "moe"]
    x = rng.standard_normal((40, 64))
    values = {role: rng.standard_normal(w.shape) for role, w in node.weights.items()}
    (whole,) = get_op("moe").reference(node, [x], context(values))
    total, idle = np.zeros_like(whole), 0
    parts = [n for n in divided(graph, 4, expert_split=[2, 1, 3, 1])[0].nodes if n.op == "moe"]
    assert [first_expert(n) for n in parts] != [0] * len(parts)
    for part in parts:
        first, n_held = first_expert(part), part.weights["gate"].shape[0]
        mine = {role: v if role == "router" else v[first:first + n_held]
                for role, v in values.items()}
        (y,) = get_op("moe").reference(part, [x], context(mine))
        total += y
        idle += int((~y.any(axis=-1)).sum())
    assert idle > 0
    np.testing.assert_allclose(total, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def context(weights: dict[str, Any]) -> RefContext:
    return RefContext(Batch.empty(LIMITS), weights)


def test_every_expert_once(rng: np.random.Generator) -> None:
    graph = graph_of(paper_file(SHAPES[0], "Q4_0"))
    for n in (1, 2, 4, 9):
        result, where = divided(graph, n, expert_split=shares_of(rng, n))
        for layer in range(graph.n_layers):
            parts = [p for p in result.nodes if p.layer == layer and p.op == "moe"]
            found = [first_expert(p) + i for p in parts for i in range(p.weights["gate"].shape[0])]
            assert sorted(found) == list(range(SHAPES[0].n_experts))
            assert len({where[p] for p in parts}) == len(parts)
            adds = [p for p in result.nodes if p.layer == layer and p.op == "add"]
            assert len(adds) == 2 + len(parts) - 1
            whole = next(p for p in graph.nodes if p.layer == layer and p.op == "moe")
            op, router = get_op("moe"), 2 * LIMITS.n_tokens * 64 * SHAPES[0].n_experts
            flops = sum(op.flops(p, LIMITS) - router for p in parts)
            assert flops == pytest.approx(op.flops(whole, LIMITS) - router, abs=len(parts))


@pytest.mark.parametrize("options", [{"cpu_moe": True}, {"n_cpu_moe": 2},
                                     {"override_tensor": {r"ffn_up_exps\.weight$": "null:0"}}])
def test_what_is_pinned_stays_whole(options: dict[str, Any]) -> None:
    graph = graph_of(paper_file(SHAPES[0], "F32"))
    result, where = divided(graph, 3, expert_split=[1, 1, 1], **options)
    assert result.nodes == graph.nodes
    device = "null:0" if "override_tensor" in options else "cpu:0"
    assert {where[n] for n in result.nodes if n.op == "moe"} == {device}


def test_other_layers_are_divided() -> None:
    result, where = divided(graph_of(paper_file(SHAPES[0], "F32")), 3, expert_split=[1, 1, 1],
                            n_cpu_moe=1)
    found = [(n.layer, where[n]) for n in result.nodes if n.op == "moe"]
    assert found == [(0, "cpu:0"), (1, "null:0"), (1, "null:1"), (1, "cpu:0")]


def test_one_device_takes_all() -> None:
    graph = graph_of(paper_file(SHAPES[1], "F32"))
    result, where = divided(graph, 3, expert_split=[0, 1, 0])
    assert result.nodes == graph.nodes
    assert {where[n] for n in result.nodes if n.op == "moe"} == {"null:0"}


@pytest.mark.parametrize("shape", [SHAPES[0], Shape("llama")], ids=["experts", "dense"])
@pytest.mark.parametrize("shares", [[1], [1, 1, 1], [-1, 2], [0, 0], [0.5, 0.3], [float("nan"), 1],
                                    []])
def test_bad_shares(shape: Shape, shares: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="expert_split"):
        divided(graph_of(paper_file(shape, "F32")), 2, expert_split=shares)


@pytest.mark.parametrize("names", [("null:0", "cpu:0"), ("null:0", "null:1", "cpu:0"),
                                   ("cpu:0", "null:0", "null:1")])
def test_all_work_at_once(names: tuple[str, ...]) -> None:
    """No device's part waits for another's: inputs are copied before the layer's device begins its
    own part, and nothing is copied from a device between two parts."""
    graph = graph_of(paper_file(SHAPES[0], "Q8_0"))
    blueprint = make_blueprint(graph, LIMITS, LAYOUT, PlanOptions(names, PlaceOptions(
        n_gpu_layers="all", expert_split=[2] * len(names))))
    for layer in range(graph.n_layers):
        parts = {i: s.device for i, s in enumerate(blueprint.steps) if isinstance(s, RunStep)
                 and any(n.op == "moe" and n.layer == layer for n in s.nodes)}
        assert {d.name for d in parts.values()} == set(names)
        assert list(parts.values())[-1].is_host
        started: set[Device] = set()
        for i in range(min(parts), max(parts)):
            step = blueprint.steps[i]
            assert isinstance(step, RunStep) or step.source not in started, (layer, step)
            started |= {step.device} if isinstance(step, RunStep) else set()


def test_what_is_predicted_when_all_work_at_once() -> None:
    """Two halves of a layer's experts take the time of the slower half, not the sum."""
    shape = Shape("qwen3moe", n_layers=2, n_embd=2048, n_ff=1024, n_experts=64, n_used=8, k_dim=64)
    fast = {"bandwidth": 1e11, "flops": 1e15, "link_bandwidth": 1e15, "link_latency_s": 1e-9,
            "launch_s": 1e-9}
    devices = [Device("null:0", "", 1 << 40, **fast),
               Device("null:1", "", 1 << 40, is_host=True, **fast)]

    def seconds(shares: list[float]) -> float:
        place = PlaceOptions(n_gpu_layers="all", expert_split=shares)
        blueprint = make_blueprint(graph_of(paper_file(shape, "Q8_0")), LIMITS, LAYOUT,
                        PlanOptions(devices, place))
        return blueprint.predict()[0].seconds
    whole, halves = seconds([1, 0]), seconds([1, 1])
    used_bytes = shape.n_layers * shape.n_used * 3 * shape.n_embd * shape.n_ff * 34 / 32
    assert whole - halves == pytest.approx(used_bytes / 2 / 1e11, rel=0.02)
