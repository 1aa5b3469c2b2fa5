"""Dispatches of :class:`~unladen.graph.ops.scale.Scale`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.backends._gpu.target import Range
from unladen.graph.graph import Node


class Scale(OpLowering):
    """A thread for each element."""

    op = "scale"
    kernels = frozenset({"scale"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        n_weights = node.weights["w"].n_elements if node.weights else 0
        ranges: dict[str, Range | bytes] = {
            "params": numbers(n_cols(y), node.float_attr("s"), n_weights), "x": low.value(x),
            "y": low.value(y), **{role: low.vector(node, role) for role in node.weights}}
        low.elements("scale", y, ranges, {"WEIGHT": bool(node.weights),
                                          "DIVIDE": bool(node.attrs.get("divide"))})
