"""Names of values, and what a graph keeps for those who tap it."""

from __future__ import annotations

import numpy as np
import pytest

from graph.test_passes import Net, ops, same
from unladen.errors import InvalidArgument
from unladen.graph import passes, taps
from unladen.graph.graph import Graph

PASSES = sorted(passes.registry())


@pytest.fixture
def net() -> Net:
    return Net()


def block(net: Net) -> Graph:
    """A gated unit, a product, and the residual stream, of which some rows are chosen."""
    unit = net.op("glu", *net.linear(net.x, 2), act="silu")
    (out,) = net.linear(unit)
    total = net.op("add", net.x, out)
    return net.g.finish(y=net.op("select_rows", total, net.g.inputs["out_rows"]))


def test_names(net: Net) -> None:
    graph = block(net)
    assert list(taps.points(graph)) == ["linear1.0", "linear1.1", "glu2", "linear3", "add4",
                                        "select_rows5"]
    for patterns, expected in (
            (["glu2"], ["glu2"]), (["linear1"], ["linear1.0", "linear1.1"]),
            (["linear1.1", "linear1.0"], ["linear1.0", "linear1.1"]),
            (["linear?.1", "add*"], ["linear1.1", "add4"]), (["*"], list(taps.points(graph))),
            (["linear[!1]"], ["linear3"]), ([], [])):
        assert taps.find(graph, patterns, "nodes") == expected
    for pattern in ("GLU2", "", "linear1.2", "x", "[", "out_rows"):
        with pytest.raises(InvalidArgument, match="matches no node"):
            taps.find(graph, [pattern], "nodes")
    with pytest.raises(InvalidArgument, match="did you mean glu2"):
        taps.find(graph, ["glu3"], "nodes")


def test_without_taps_passes_do_what_they_did(net: Net) -> None:
    graph = block(net)
    plain = passes.apply(graph, PASSES)
    assert ops(passes.apply(taps.mark(graph, [], []), PASSES)) == ops(plain)
    assert len(plain.nodes) < len(graph.nodes)


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("name", ["linear1.0", "linear1.1", "glu2", "linear3", "add4",
                                  "select_rows5"])
def test_a_tapped_value_is_kept(net: Net, name: str, is_changed: bool, rng: np.random.Generator
                                ) -> None:
    """No pass fuses it away, and what it is doesn't change."""
    graph = block(net)
    marked = taps.mark(graph, [name], [name] if is_changed else [])
    value = taps.points(graph)[name]
    after = same(net, marked, PASSES, rng)
    assert sum(value in n.outputs for n in after.nodes) == 1
    assert after.outputs[taps.PREFIX + name] is value
    assert after.changed == ({value} if is_changed else set())
    assert taps.is_tapped(after, value) and not taps.is_tapped(graph, value)
    only_changed = passes.apply(taps.mark(graph, [], [name]), PASSES)
    assert sum(value in n.outputs for n in only_changed.nodes) == 1
