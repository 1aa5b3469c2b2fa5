"""The order of the rungs, and how far each goes down."""

from __future__ import annotations

import pytest

from unladen.assembly.ladder import Ladder, Wishes
from unladen.backends.base import BackendOptions
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Graph, KVSpec, Value
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import PlaceOptions


@pytest.fixture
def graph() -> Graph:
    g = GraphBuilder()
    g.layer, g.n_layers = 0, 12
    k, v = (Value(name, ("T", 128)) for name in "kv")
    g.add("kv_write", (k, v), name="write", state=KVSpec(0, 2, 64, 64))
    return g.finish()


def changes(graph: Graph, rungs: list[str], *, devices: tuple[str, ...] = ("cpu:0", "null:0"),
            n_needed: int = 1, **wishes: object) -> list[str]:
    options = PlanOptions(devices, PlaceOptions(), BackendOptions())
    start = Wishes(options, **wishes)  # type: ignore[arg-type]
    return [change for _, change in Ladder(rungs, [graph]).down(start, 12, 1000, n_needed)]


@pytest.mark.parametrize(("rung", "expected"), [
    ("ubatch", ["512 -> 256", "256 -> 128", "128 -> 64", "64 -> 32"]),
    ("kv:q8_0", ["f16 -> q8_0"]), ("kv:q8_0,f16", ["f16 -> q8_0,f16"]), ("kv:f16", []),
    ("kv:f32", []), ("layers", ["12 -> 6", "6 -> 3", "3 -> 1", "1 -> 0"]),
    ("context", ["1000 -> 480", "480 -> 224", "224 -> 96", "96 -> 32"])])
def test_one_rung(graph: Graph, rung: str, expected: list[str]) -> None:
    assert [c.partition(" ")[2] for c in changes(graph, [rung])] == expected


def test_rungs_add_up(graph: Graph) -> None:
    rungs = ["context", "kv:q8_0", "ubatch"]
    last = [*Ladder(rungs, [graph]).down(Wishes(PlanOptions(), batch_size=100), 0, 200, 1)][-1][0]
    assert (last.context_size, last.kv_type, last.batch_size) == (32, "q8_0", 32)


def test_what_cannot_shrink(graph: Graph) -> None:
    assert changes(graph, ["ubatch"], batch_size=32) == []
    assert changes(graph, ["layers"], devices=("cpu:0",)) == []
    assert changes(graph, ["layers"], devices=("null:0", "null:1")) == [], "no host to take them"
    assert changes(graph, ["context"], n_needed=900) == ["context_size 1000 -> 928"]
    assert changes(graph, ["context"], n_needed=1000) == []
