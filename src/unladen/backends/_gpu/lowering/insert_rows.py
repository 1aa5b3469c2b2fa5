"""Dispatches of :class:`~unladen.graph.ops.insert_rows.InsertRows`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class InsertRows(OpLowering):
    """A thread for each element; the rows are uploaded with the step."""

    op = "insert_rows"
    kernels = frozenset({"insert_rows"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x, row_of, rows), (y,) = node.inputs, node.outputs
        assert [low.segment.batch_inputs[v] for v in (row_of, rows)] == ["row_of", "rows"]
        low.elements("insert_rows", y, {"params": numbers(n_cols(y)), "x": low.value(x),
                                        "y": low.value(y)})
