"""Passes change how a graph is computed, never what."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from unladen.errors import ExtensionError
from unladen.graph import passes
from unladen.graph.batch import Batch
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Graph, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext
from unladen.graph.passes import Pass
from unladen.types import Limits

Array = npt.NDArray[Any]
N = 6


class Net:
    """Builds small feed-forward graphs over one input f32 [T, 6]."""

    def __init__(self) -> None:
        self.g = GraphBuilder()
        self.x = Value("x", ("T", N))
        self.n = 0

    def linear(self, x: Value, n_outputs: int = 1) -> tuple[Value, ...]:
        self.n += 1
        weights = {f"w{i}": Weight(f"w{self.n}.{i}", (N, N), "F32") for i in range(n_outputs)}
        weights["b0"] = Weight(f"b{self.n}", (N,), "F32")
        return self.g.add("linear", (x,), name=f"linear{self.n}", weights=weights)

    def op(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        self.n += 1
        return self.g.one(op, *inputs, name=f"{op}{self.n}", attrs=attrs)


def evaluate(graph: Graph, x: Value, rng: np.random.Generator) -> dict[str, Array]:
    """Outputs by name, in float64; weights are random, but the same for the same generator."""
    values: dict[Value, Array] = {x: rng.standard_normal((3, N)),
                                  graph.inputs["out_rows"]: np.array([2, 0])}
    weights = {name: rng.standard_normal(w.shape)
               for name, w in sorted(graph.weights().items())}
    batch = Batch.empty(Limits(3, 1, 1, 1, 1))
    for node in graph.nodes:
        inputs = [values[v] for v in node.inputs]
        ctx = RefContext(batch, {role: weights[w.name] for role, w in node.weights.items()})
        outputs = get_op(node.op).reference(node, inputs, ctx)
        assert [v.shape for v in node.outputs] == [s for s, _ in get_op(node.op).infer(node)]
        values |= dict(zip(node.outputs, outputs, strict=True))
    return {name: values[value] for name, value in graph.outputs.items()}


def same(net: Net, graph: Graph, names: list[str], rng: np.random.Generator) -> Graph:
    """``graph`` after the passes, which must give what it gave before."""
    after = passes.apply(graph, names)
    seed = int(rng.integers(1 << 32))
    before, now = (evaluate(g, net.x, np.random.default_rng(seed)) for g in (graph, after))
    for name in graph.outputs:
        np.testing.assert_allclose(now[name], before[name], rtol=1e-12, atol=1e-12)
    assert after.inputs == graph.inputs and after.outputs == graph.outputs
    return after


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("act", ["silu", "gelu"])
def test_a_gated_unit(act: str, rng: np.random.Generator) -> None:
    net = Net()
    y = net.op("glu", *net.linear(net.x, 2), act=act)
    after = same(net, net.g.finish(y=y), ["fuse_glu"], rng)
    assert ops(after) == ["linear"] and after.nodes[0].attrs["act"] == act
    assert after.nodes[0].outputs == (y,)


def test_a_gate_that_something_else_reads(rng: np.random.Generator) -> None:
    net = Net()
    gate, up = net.linear(net.x, 2)
    graph = net.g.finish(y=net.op("glu", gate, up, act="silu"), gate=gate)
    assert ops(same(net, graph, ["fuse_glu"], rng)) == ["linear", "glu"]


def test_gate_and_up_of_two_products_or_the_wrong_way_round(rng: np.random.Generator) -> None:
    net = Net()
    gate, up = net.linear(net.x, 2)
    (other,) = net.linear(net.x)
    graph = net.g.finish(a=net.op("glu", up, gate, act="silu"),
                         b=net.op("glu", other, net.x, act="gelu"))
    assert ops(same(net, graph, ["fuse_glu"], rng)) == ["linear", "linear", "glu", "glu"]


@pytest.mark.parametrize("product_first", [True, False])
def test_a_residual(product_first: bool, rng: np.random.Generator) -> None:
    net = Net()
    (p,) = net.linear(net.x)
    y = net.op("add", p, net.x) if product_first else net.op("add", net.x, p)
    after = same(net, net.g.finish(y=y), ["fuse_residual"], rng)
    assert ops(after) == ["linear"] and after.nodes[0].inputs == (net.x, net.x)


def test_sums_of_products_fuse_one_of_them(rng: np.random.Generator) -> None:
    net = Net()
    (a,), (b,) = net.linear(net.x), net.linear(net.x)
    after = same(net, net.g.finish(y=net.op("add", a, b)), ["fuse_residual"], rng)
    assert ops(after) == ["linear", "linear"]


def test_products_that_are_needed_twice(rng: np.random.Generator) -> None:
    net = Net()
    (p,) = net.linear(net.x)
    (q,) = net.linear(net.x)
    graph = net.g.finish(y=net.op("add", p, p), z=net.op("add", q, net.x), q=q)
    assert ops(same(net, graph, ["fuse_residual"], rng)) == ["linear", "linear", "add", "add"]


def test_a_chain_of_residuals(rng: np.random.Generator) -> None:
    net = Net()
    x = net.x
    for _ in range(3):
        (p,) = net.linear(x)
        x = net.op("add", x, p)
    after = same(net, net.g.finish(y=x), ["fuse_residual"], rng)
    assert ops(after) == ["linear"] * 3


def test_rotations_of_the_same_kind(rng: np.random.Generator) -> None:
    """Not those of what another has rotated, nor otherwise."""
    net = Net()
    a, b, table = net.linear(net.x, 3)
    turn = {"head_dim": N, "style": "norm"}
    q, k = net.op("rope", a, table, **turn), net.op("rope", b, table, **turn)
    again = net.op("rope", q, table, **turn)
    other = net.op("rope", k, table, head_dim=N, style="neox")
    graph = net.g.finish(q=q, k=k, again=again, other=other)
    after = same(net, graph, ["fuse_rope"], rng)
    assert ops(after) == ["linear"] + ["rope"] * 3
    assert after.nodes[1].inputs == (a, b, table) and after.nodes[1].outputs == (q, k)


def test_all_passes_together(rng: np.random.Generator) -> None:
    """A whole feed-forward, twice; and a gated unit that is itself added to something."""
    net = Net()
    x = net.x
    for _ in range(2):
        y = net.op("glu", *net.linear(x, 2), act="silu")
        (y,) = net.linear(y)
        x = net.op("add", x, y)
    gated = net.op("glu", *net.linear(x, 2), act="relu")
    graph = net.g.finish(y=net.op("add", gated, x))
    assert len(graph.nodes) == 11
    after = same(net, graph, list(passes.registry()), rng)
    assert ops(after) == ["linear"] * 5
    last: Mapping[str, Any] = after.nodes[-1].attrs
    assert last["act"] == "relu" and last["residual"] is True


def test_passes_are_found_by_scanning() -> None:
    assert {"fuse_glu", "fuse_residual", "fuse_rope", "select_early"} <= set(passes.registry())


def chosen_rows(net: Net, x: Value) -> Value:
    return net.g.one("select_rows", x, net.g.inputs["out_rows"], name="rows")


def test_rows_are_chosen_before_what_is_done_row_by_row(rng: np.random.Generator) -> None:
    net = Net()
    y = net.op("add", net.x, net.op("glu", *net.linear(net.x, 2), act="silu"))
    after = same(net, net.g.finish(y=chosen_rows(net, y)), ["select_early"], rng)
    assert ops(after) == ["select_rows", "linear", "glu", "add"]
    assert after.nodes[0].inputs[0] is net.x
    assert all(v.shape[0] == "S" for node in after.nodes for v in node.outputs)


def test_rows_are_chosen_after_what_else_is_read(rng: np.random.Generator) -> None:
    net = Net()
    (kept,) = net.linear(net.x)
    y = net.op("add", kept, net.linear(net.x)[0])
    after = same(net, net.g.finish(y=chosen_rows(net, y), kept=kept), ["select_early"], rng)
    assert ops(after) == ["select_rows", "linear", "select_rows", "linear", "add"]
    assert after.nodes[1].outputs == (kept,) and after.nodes[2].inputs[0] is kept


def test_rows_are_chosen_after_one_of_two_outputs_is_read(rng: np.random.Generator) -> None:
    net = Net()
    first, second = net.linear(net.x, 2)
    graph = net.g.finish(y=chosen_rows(net, first), second=second)
    assert ops(same(net, graph, ["select_early"], rng)) == ["linear", "select_rows"]


def a_pass(name: str, phase: str = "fuse", *, after: Iterable[str] = (), before: Iterable[str] = ()
           ) -> tuple[str, Pass]:
    return name, Pass(name, f"/somewhere/{name}.py", lambda graph: graph, phase, frozenset(after),
                      frozenset(before))


def test_passes_run_by_phase_then_as_they_say_then_by_name(rng: np.random.Generator) -> None:
    given = [a_pass("a", after=["c"]), a_pass("b"), a_pass("c"), a_pass("d", before=["b"]),
             a_pass("z", "adapt"), a_pass("y", "adapt", after=["z"])]
    shuffled = {given[i][0]: given[i][1] for i in rng.permutation(len(given))}
    assert [each.name for each in passes.ordered(shuffled)] == ["z", "y", "c", "a", "d", "b"]


@pytest.mark.parametrize(("given", "says"), [
    ([a_pass("a", after=["b"]), a_pass("b", after=["a"])], "a before b before a|b before a"),
    ([a_pass("a", after=["a"])], "a before a"),
    ([a_pass("a", before=["b"]), a_pass("b", before=["c"]), a_pass("c", before=["a"])],
     "can't be put in order"),
    ([a_pass("a", "adapt", after=["b"]), a_pass("b")], "can't be put in order"),
    ([a_pass("a"), a_pass("b", before=["a"], after=["nobody"])], "names 'nobody'"),
    ([a_pass("a", before=["nobody"])], "names 'nobody'")])
def test_orders_that_contradict_themselves(given: list[tuple[str, Pass]], says: str) -> None:
    with pytest.raises(ExtensionError, match=says) as caught:
        passes.ordered(dict(given))
    named = [name for name, each in given if each.where in str(caught.value)]
    assert named and (given[0][0] in named or "nobody" in says) and caught.value.hint


def test_a_fusion_that_is_not_there() -> None:
    with pytest.raises(ExtensionError, match=r"'fuse_nothing'.*no pass"):
        passes.apply(Net().g.finish(), ["fuse_glu", "fuse_nothing"])


@pytest.mark.parametrize(("given", "says"), [
    ({}, "no function run"), ({"run": 3}, "no function run"), ({"run": len}, "PHASE is None"),
    ({"run": len, "PHASE": "later"}, "PHASE is 'later'"),
    ({"run": len, "PHASE": "fuse", "AFTER": "fuse_glu"}, "AFTER is 'fuse_glu'"),
    ({"run": len, "PHASE": "fuse", "BEFORE": {1}}, "BEFORE is {1}")])
def test_a_file_that_does_not_say_what_it_must(given: dict[str, Any], says: str) -> None:
    module = ModuleType("unladen_plugin_passes_mine")
    vars(module).update(given)
    with pytest.raises(TypeError, match=says):
        Pass.of(module)


def test_passes_that_say_nothing_of_one_another_commute(rng: np.random.Generator) -> None:
    """In each order that they allow, they make the same graph."""
    net = Net()
    x = net.x
    for _ in range(int(rng.integers(1, 4))):
        a, b, table = net.linear(x, 3)
        turn = {"head_dim": N, "style": "norm"}
        a, b = net.op("rope", a, table, **turn), net.op("rope", b, table, **turn)
        x = net.op("add", x, net.linear(net.op("add", a, b))[0])
        x = net.op("add", net.op("glu", *net.linear(x, 2), act="silu"), x)
    graph = net.g.finish(y=chosen_rows(net, x))
    known, results = passes.registry(), set()
    for order in itertools.permutations(known):
        if any(order.index(a) > order.index(name) for name, p in known.items() for a in p.after):
            continue
        after = graph
        for name in order:
            after = known[name].run(after)
        results.add(repr([(n, n.weights, sorted(n.attrs.items())) for n in after.nodes]))
    assert len(results) == 1
    assert "fuse_glu" in known["fuse_residual"].after, "and this order matters:"
    wrong = known["fuse_glu"].run(known["fuse_residual"].run(graph))
    assert ops(wrong) != ops(passes.apply(graph, ["fuse_glu", "fuse_residual"]))
