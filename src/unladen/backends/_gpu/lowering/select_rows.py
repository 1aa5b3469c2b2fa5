"""Dispatches of :class:`~unladen.graph.ops.select_rows.SelectRows`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class SelectRows(OpLowering):
    """A thread for each element of the rows whose outputs are wanted."""

    op = "select_rows"
    kernels = frozenset({"select_rows"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x, which), (y,) = node.inputs, node.outputs
        assert low.segment.batch_inputs[which] == "out_rows"
        low.elements("select_rows", y, {"params": numbers(n_cols(y)), "x": low.value(x),
                                        "y": low.value(y)})
