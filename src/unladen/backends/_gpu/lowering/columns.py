"""Dispatches of :class:`~unladen.graph.ops.columns.Columns`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.columns import column_attrs


class Columns(OpLowering):
    """A thread for each element."""

    op = "columns"
    kernels = frozenset({"columns"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("columns", y, {"params": numbers(n_cols(y), *column_attrs(node)),
                                    "x": low.value(x), "y": low.value(y)})
