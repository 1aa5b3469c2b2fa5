"""Arenas: no two values that live at once share a byte."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tiny_plan import Tiny
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Graph, Node, Value
from unladen.schedule.cut.arena import ALIGNMENT, ArenaPlan, plan_arena
from unladen.schedule.cut.segments import ChangeStep, CopyStep, RunStep, Step, split
from unladen.types import Limits

DEVICES = [backend_of("null").open(f"null:{i}", BackendOptions()) for i in range(3)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[Step]]:
    """Random graphs with their nodes on random devices."""
    nodes: list[Node] = []
    values: list[Value] = []
    device_of = {}
    for i in range(draw(st.integers(1, 25))):
        inputs = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
        shape = (draw(st.sampled_from(["T", "S", 3])), draw(st.integers(1, 70)))
        outputs = tuple(Value(f"v{i}.{j}", shape) for j in range(draw(st.integers(0, 2))))
        node = Node(f"n{i}", "any", tuple(inputs), outputs)
        nodes.append(node)
        values += outputs
        device_of[node] = (draw(st.sampled_from(DEVICES)), "")
    wanted = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    changed = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
    graph = Graph(nodes, {}, {f"out{i}": v for i, v in enumerate(wanted)}, 0, frozenset(changed))
    return graph, split(graph, device_of)


def alive(graph: Graph, steps: list[Step], device: str) -> list[set[Value]]:
    """Which values ``device`` must hold during each node, copy and change, by looking ahead."""
    events: list[tuple[set[Value], set[Value]]] = []  # values read, values made
    for step in steps:
        if isinstance(step, CopyStep):
            events.append(({step.value} if step.source.name == device else set(),
                           {step.value} if step.target.name == device else set()))
        elif isinstance(step, ChangeStep):
            events.append(({step.value} if step.device.name == device else set(), set()))
        else:
            here = step.device.name == device
            events += [(set(n.inputs) & _made(graph) if here else set(),
                        set(n.outputs) if here else set()) for n in step.nodes]
    events.append((set(graph.outputs.values()), set()))
    result = []
    for i, (read, made) in enumerate(events):
        before = set().union(*(m for _, m in events[:i]))
        later = set().union(*(r for r, _ in events[i + 1:]))
        result.append((before & (later | read)) | made)
    return result


def _made(graph: Graph) -> set[Value]:
    return {v for n in graph.nodes for v in n.outputs}


def check(graph: Graph, steps: list[Step], device: str, limits: Limits, arena: ArenaPlan,
          stored: Mapping[Value, int]) -> None:
    for together in alive(graph, steps, device):
        sizes = {v: stored.get(v, 4 * limits.count(v.shape)) for v in together}
        ranges = sorted((arena.offsets[v], arena.offsets[v] + n) for v, n in sizes.items() if n)
        for (_, end), (start, _) in itertools.pairwise(ranges):
            assert end <= start
        assert all(end <= arena.scratch_offset for _, end in ranges)
    assert all(offset % ALIGNMENT == 0 for offset in arena.offsets.values())
    assert arena.scratch_offset % ALIGNMENT == 0 == arena.nbytes % ALIGNMENT
    assert arena.nbytes >= arena.scratch_offset + arena.scratch_bytes


@given(graphs(), st.integers(1, 40), st.integers(1, 5), st.integers(0, 1000))
def test_no_two_living_values_overlap(case: tuple[Graph, list[Step]], n_tokens: int,
                                      n_outputs: int, scratch: int) -> None:
    graph, steps = case
    limits = Limits(n_tokens, n_outputs, 1, 1, 1)
    for device in DEVICES:
        check(graph, steps, device.name, limits,
              plan_arena(graph, steps, device.name, limits, scratch, {}), {})


@given(graphs(), st.integers(1, 40), st.data())
def test_values_stored_otherwise(case: tuple[Graph, list[Step]], n_tokens: int, data: st.DataObject
                                 ) -> None:
    graph, steps = case
    sizes = {v: data.draw(st.none() | st.integers(0, 5000)) for v in sorted(
        _made(graph), key=lambda v: v.name)}
    stored = {v: n for v, n in sizes.items() if n is not None}
    limits = Limits(n_tokens, 1, 1, 1, 1)
    for device in DEVICES:
        check(graph, steps, device.name, limits,
              plan_arena(graph, steps, device.name, limits, 0, stored), stored)


def test_memory_is_reused(tiny: Tiny) -> None:
    device = DEVICES[0]
    steps: list[Step] = [RunStep(device, tuple(tiny.graph.nodes))]
    limits = Limits(32, 1, 1, 1, 1)
    arena = plan_arena(tiny.graph, steps, device.name, limits, 0, {})
    check(tiny.graph, steps, device.name, limits, arena, {})
    assert arena.nbytes < sum(4 * limits.count(v.shape) for v in _made(tiny.graph)) / 4


@given(st.integers(2, 6), st.data())
def test_nodes_of_one_dispatch_share_no_bytes(n_nodes: int, data: st.DataObject) -> None:
    """A chain of nodes, of which some read a value that passes within a dispatch."""
    values = [Value(f"v{i}", ("T", data.draw(st.integers(1, 300)))) for i in range(n_nodes + 1)]
    nodes = [Node("n", "any", (), tuple(values[:1])), *(
        Node(f"n{i}", "any", (a,), (b,)) for i, (a, b) in enumerate(itertools.pairwise(values)))]
    passed = set(data.draw(st.lists(st.sampled_from(values[1:-1]))))
    graph = Graph(nodes, {}, {"out": values[-1]}, 0, frozenset())
    limits = Limits(8, 1, 1, 1, 1)
    arena = plan_arena(graph, [RunStep(DEVICES[0], tuple(nodes))], DEVICES[0].name, limits, 0, {},
                       passed)
    check(graph, [RunStep(DEVICES[0], tuple(nodes))], DEVICES[0].name, limits, arena, {})
    together: list[set[Value]] = []
    for node in nodes:
        if passed.isdisjoint(node.inputs):
            together.append(set())
        together[-1] |= {*node.inputs, *node.outputs}
    for group in together:
        ranges = sorted((arena.offsets[v], arena.offsets[v] + 4 * limits.count(v.shape))
                        for v in group)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
