"""Dispatches of :class:`~unladen.graph.ops.token_shift.TokenShift`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class TokenShift(OpLowering):
    """A thread for each column of a sequence."""

    op = "token_shift"
    kernels = frozenset({"token_shift"})

    def lower(self, low: Lowering, node: Node) -> None:
        n = n_cols(node.inputs[0])
        scan(low, node, n, {"params": numbers(n), "x": low.value(node.inputs[0])})
