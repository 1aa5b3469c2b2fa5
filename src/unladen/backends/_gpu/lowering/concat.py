"""Dispatches of :class:`~unladen.graph.ops.concat.Concat`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.concat import head_count, head_parts


class Concat(OpLowering):
    """One dispatch for each input, with a thread for each of its elements."""

    op = "concat"
    kernels = frozenset({"concat"})

    def lower(self, low: Lowering, node: Node) -> None:
        (y,), n_heads, at = node.outputs, head_count(node), 0
        for x, (n, is_shared) in zip(node.inputs, head_parts(node), strict=True):
            params = numbers(n, n_cols(y) // n_heads, at, n_heads)
            low.elements("concat", x, {"params": params, "x": low.value(x), "y": low.value(y)},
                         {"SHARED": is_shared}, cols=n_heads * n)
            at += n
