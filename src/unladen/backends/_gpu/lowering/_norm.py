"""The dispatch of a norm: a workgroup for each group of columns."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import ANY, Lowering, n_cols, numbers, threads_for
from unladen.backends._gpu.target import Constants, Range
from unladen.graph.graph import Node
from unladen.graph.ops.norm_groups import group_of


def norm(low: Lowering, node: Node, at_once: int, constants: Constants, within: range = ANY
         ) -> None:
    """Append a dispatch of the kernel named like the op. A thread reads ``at_once`` columns as one
    item. ``within``: the numbers of rows with which a step needs it."""
    (x,), (y,) = node.inputs, node.outputs
    size = group_of(node)
    period = next((w.n_elements for w in node.weights.values()), size)
    ranges: dict[str, Range | bytes] = {
        "params": numbers(n_cols(y) // at_once, size // at_once, node.float_attr("eps"),
                          period // at_once),
        "x": low.value(x), "y": low.value(y),
        **{role: low.vector(node, role) for role in node.weights}}
    low.one_each(node.op, y, n_cols(y) // size, threads_for(size), ranges,
                 {"WEIGHT": "w" in node.weights, **constants}, within)
