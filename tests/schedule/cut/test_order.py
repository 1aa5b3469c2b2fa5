"""The order of nodes: sound for any placement, and other devices' work before the host's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from factory import Shape
from schedule.paper import graph_of, paper_file
from shared_experts import SHARED_EXPERTS, on_paper
from tiny_plan import LAYOUT, LIMITS, Tiny
from unladen.backends.base import Device
from unladen.graph import passes
from unladen.graph.graph import Graph, Node
from unladen.schedule.blueprint import make_blueprint
from unladen.schedule.cut.order import late_sums, others_first
from unladen.schedule.cut.segments import CopyStep, RunStep, split
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions, place

HOST = Device("null:9", "a host", 1 << 40, is_host=True)
CARD, OTHER = Device("null:0", "a card", 1 << 40), Device("null:1", "a card", 1 << 40)


def check(graph: Graph, nodes: list[Node]) -> None:
    """Every node once, after those that make its inputs, caches in their order."""
    assert len(nodes) == len(graph.nodes) and set(nodes) == set(graph.nodes)
    made = set(graph.inputs.values())
    for node in nodes:
        assert made >= set(node.inputs), node
        made |= set(node.outputs)
    for layer in graph.states():
        of = [[n for n in some if n.state and n.state.layer == layer]
              for some in (nodes, graph.nodes)]
        assert of[0] == of[1]


@pytest.mark.parametrize("shape", [Shape("llama", n_layers=3), SHARED_EXPERTS],
                         ids=lambda s: s.arch)
def test_any_placement(shape: Shape, rng: np.random.Generator) -> None:
    graph = on_paper() if shape is SHARED_EXPERTS else graph_of(paper_file(shape, "F32"))
    for devices in ([HOST, CARD], [HOST, CARD, OTHER], [HOST], [CARD]):
        for _ in range(20):
            where = {n: (devices[rng.integers(len(devices))], "") for n in graph.nodes}
            nodes = others_first(graph, where)
            check(graph, nodes)
            if len(devices) == 1:
                assert nodes == list(graph.nodes)
            for layer in range(-2, graph.n_layers):  # no layer's work is put off to the next one
                mine = [i for i, n in enumerate(nodes)
                        if n.layer == layer and not where[n][0].is_host]
                later = [i for i, n in enumerate(nodes)
                         if n.layer > layer >= 0 and not where[n][0].is_host]
                assert not mine or not later or max(mine) < min(later)


def test_shared_experts_start_before_the_routed_ones() -> None:
    graph = on_paper()
    where = {n: (HOST if n.op == "moe" else CARD, "") for n in graph.nodes}
    steps = split(graph, where)
    check(graph, [n for s in steps if isinstance(s, RunStep) for n in s.nodes])
    for layer in range(graph.n_layers):
        (i,) = (i for i, s in enumerate(steps) if isinstance(s, RunStep)
                and s.nodes[0].op == "moe" and s.nodes[0].layer == layer)
        before = steps[i - 1]
        # The card's run is the last that is started before the host works. What the host reads was
        # sent before that run, so the host doesn't wait for it.
        assert isinstance(before, RunStep) and before.device == CARD
        assert any("shexp" in n.name for n in before.nodes)
        sent, moe = steps[i - 2], steps[i]
        assert isinstance(sent, CopyStep) and isinstance(moe, RunStep)
        assert sent.value == moe.nodes[0].inputs[0]


def test_little_work_overtakes_nothing(tiny: Tiny) -> None:
    """Without a product a segment of its own isn't worth its start."""
    for node in tiny.graph.nodes:
        if node.op == "rope_table":
            where = {n: (CARD if n is node else HOST, "") for n in tiny.graph.nodes}
            assert others_first(tiny.graph, where) == list(tiny.graph.nodes)


def test_a_third_devices_value_overtakes_nothing() -> None:
    """The host would wait for that value before its own work."""
    graph = on_paper()
    where = {n: (HOST if n.op == "moe" else CARD, "") for n in graph.nodes}
    (down,) = (n for n in graph.nodes if n.layer == 0
               and any("ffn_down_shexp" in w.name for w in n.weights.values()))
    where[down] = OTHER, ""
    nodes = others_first(graph, where)
    moe = next(n for n in nodes if n.op == "moe")
    assert nodes.index(moe) < nodes.index(down)
    where[down] = CARD, ""
    nodes = others_first(graph, where)
    assert nodes.index(down) < nodes.index(moe)


def test_a_cache_of_the_host_is_written_before_it_is_read(tiny: Tiny) -> None:
    where = {n: (HOST if n.state is not None else CARD, "") for n in tiny.graph.nodes}
    check(tiny.graph, others_first(tiny.graph, where))
    graph = replace(tiny.graph, nodes=tuple(tiny.graph.nodes))
    where = {n: (HOST if n.op == "kv_write" else CARD, "") for n in graph.nodes}
    check(graph, others_first(graph, where))


@pytest.mark.parametrize("options", [{}, {"expert_cache": 2}])
def test_a_product_that_was_joined_with_a_late_sum(options: dict[str, int]) -> None:
    """Without a gate, the last product of the shared experts is joined with the sum of all."""
    graph = on_paper(gated=False)
    joined = [n for n in passes.apply(graph, frozenset({"fuse_residual"})).nodes
              if n.attrs.get("residual") and "ffn_down_shexp" in n.weights["w0"].name]
    assert len(joined) == graph.n_layers
    made = make_blueprint(graph, LIMITS, LAYOUT, PlanOptions(("null:0", "cpu:0"), PlaceOptions(
        n_gpu_layers="all", cpu_moe=True, stream_weights=False, **options)))  # type: ignore[arg-type]
    check(made.graph, [n for s in made.steps if isinstance(s, RunStep) for n in s.nodes])
    for layer in range(graph.n_layers):
        cold = next(i for i, s in enumerate(made.steps) if isinstance(s, RunStep)
                    and s.device.is_host and s.nodes[-1].op == "moe"
                    and s.nodes[-1].layer == layer)
        before = made.steps[cold - 1]
        assert isinstance(before, RunStep) and not before.device.is_host
        assert any("ffn_down_shexp" in w.name for n in before.nodes for w in n.weights.values())
    # Where nothing waits for the host, all stays joined.
    whole = passes.apply(graph, frozenset({"fuse_residual"}))
    placed = place(whole, [CARD, HOST], PlaceOptions(n_gpu_layers="all"))
    assert late_sums(whole, placed)[0].nodes == whole.nodes
