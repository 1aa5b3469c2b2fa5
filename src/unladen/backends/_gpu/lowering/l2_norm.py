"""Dispatches of :class:`~unladen.graph.ops.l2_norm.L2Norm`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import (
    Lowering,
    OpLowering,
    n_cols,
    numbers,
    threads_for,
)
from unladen.graph.graph import Node


class L2Norm(OpLowering):
    """A workgroup for each head of a row."""

    op = "l2_norm"
    kernels = frozenset({"l2_norm"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,), dim = node.inputs, node.outputs, node.int_attr("head_dim")
        low.one_each("l2_norm", y, n_cols(y) // dim, threads_for(dim), {
            "params": numbers(n_cols(y), dim, node.float_attr("eps")), "x": low.value(x),
            "y": low.value(y)})
