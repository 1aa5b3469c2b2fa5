"""Dispatches of :class:`~unladen.graph.ops.add.Add`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class Add(OpLowering):
    """A thread for each element; with ROW, b is one row that is added to each row of a."""

    op = "add"
    kernels = frozenset({"add"})

    def lower(self, low: Lowering, node: Node) -> None:
        (y,), is_row = node.outputs, bool(node.weights)
        low.elements("add", y, {
            "params": numbers(n_cols(y)), "a": low.value(node.inputs[0]),
            "b": low.vector(node, "b") if is_row else low.value(node.inputs[1]),
            "y": low.value(y)}, {"ROW": is_row})
