"""Dispatches of :class:`~unladen.graph.ops.head_sum.HeadSum`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class HeadSum(OpLowering):
    """A thread for each head of a row."""

    op = "head_sum"
    kernels = frozenset({"head_sum"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("head_sum", y, {"params": numbers(n_cols(y), node.int_attr("head_dim")),
                                     "x": low.value(x), "y": low.value(y)})
