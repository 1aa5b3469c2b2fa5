"""Dispatches of :class:`~unladen.graph.ops.pool_tokens.PoolTokens`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.pool_tokens import pool_sizes


class PoolTokens(OpLowering):
    """A thread for each column of a sequence."""

    op = "pool_tokens"
    kernels = frozenset({"pool_tokens"})

    def lower(self, low: Lowering, node: Node) -> None:
        x, scores, _ = node.inputs
        sizes = pool_sizes(node)
        scan(low, node, sizes[-1], {
            "params": numbers(*sizes), "x": low.value(x), "scores": low.value(scores),
            "place": low.vector(node, "place")})
