"""Lets the device that computes the logits choose among them, where it can.

With a large vocabulary a row of logits takes half a megabyte, but often a request needs only its
best token, or a few candidates. The ops ``argmax`` and ``top_k`` come last in the graph and have
outputs of their own; each step says which of them it reads (:attr:`Batch.skip`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from unladen.backends.base import Device
from unladen.graph.graph import AFTER_LAYERS, Attr, Graph, Node, Value
from unladen.graph.ops import get_op
from unladen.graph.taps import is_tapped
from unladen.schedule.cut.segments import FetchStep, RunStep, Step

MAX_CANDIDATES = 256
"""Candidates of each row that ``top_k`` leaves; a request that wants more reads the whole row."""

NARROWING: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "argmax": ("argmax",), "top_k": ("top_ids", "top_logits")})
"""The ops that choose, and the names of their outputs in a graph."""

SKIPPED: Mapping[str, frozenset[str]] = MappingProxyType(
    {"": frozenset(NARROWING)} |
    {op: frozenset({"logits", *NARROWING}) - {op} for op in NARROWING})
"""What a step skips (:attr:`Batch.skip`), by the op that chooses, "" where the logits are read."""


def add(graph: Graph, device_of: Mapping[Node, tuple[Device, str]],
        runs: Callable[[Device, Node], bool]) -> tuple[Graph, dict[Node, tuple[Device, str]]]:
    """``graph`` with the ops of :data:`NARROWING` that the device of its logits runs, and the
    devices of all nodes. Where a tap looks at the logits or changes them, nothing is added: every
    step reads them whole."""
    logits = graph.outputs.get("logits")
    made_by = next((n for n in graph.nodes if logits in n.outputs), None)
    if logits is None or made_by is None or is_tapped(graph, logits):
        return graph, dict(device_of)
    device, n = device_of[made_by][0], logits.shape[-1]
    assert isinstance(n, int)
    where, outputs, nodes = dict(device_of), dict(graph.outputs), list(graph.nodes)
    for op, names in NARROWING.items():
        node = _node(op, names, logits, {"k": min(n, MAX_CANDIDATES)} if op == "top_k" else {})
        if runs(device, node):
            nodes.append(node)
            where[node] = device, "with the logits"
            outputs |= zip(names, node.outputs, strict=True)
    return replace(graph, nodes=tuple(nodes), outputs=outputs), where


def without(graph: Graph) -> Graph:
    """``graph`` as it was before :func:`add`."""
    ours = {name for names in NARROWING.values() for name in names}
    return replace(graph, nodes=tuple(n for n in graph.nodes if n.op not in NARROWING),
                   outputs={k: v for k, v in graph.outputs.items() if k not in ours})


def steps_without(steps: Sequence[Step]) -> list[Step]:
    """``steps`` without the nodes that :func:`add` added; they are never alone in a segment."""
    def run(step: RunStep) -> RunStep:
        return RunStep(step.device, tuple(n for n in step.nodes if n.op not in NARROWING))
    return [run(s) if isinstance(s, RunStep) else
            replace(s, run=run(s.run)) if isinstance(s, FetchStep) else s for s in steps]


def n_candidates(node: Node) -> int:
    """How many candidates of a row ``node``, one of :data:`NARROWING`, leaves."""
    return node.int_attr("k") if node.op == "top_k" else 1


def _node(op: str, names: tuple[str, ...], logits: Value, attrs: Mapping[str, Attr]) -> Node:
    bare = Node(op, op, (logits,), (), attrs=attrs, layer=AFTER_LAYERS)
    outputs = tuple(Value(name, shape, dtype) for name, (shape, dtype)
                    in zip(names, get_op(op).infer(bare), strict=True))
    return replace(bare, outputs=outputs)
