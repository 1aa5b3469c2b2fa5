"""Dispatches of :class:`~unladen.graph.ops.rwkv_mix.RwkvMix`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class RwkvMix(OpLowering):
    """A thread for each column of a sequence."""

    op = "rwkv_mix"
    kernels = frozenset({"rwkv_mix"})

    def n_bindings(self, node: Node) -> int:
        """Inputs, weights, slots, outputs, and the step's words."""
        return 9

    def lower(self, low: Lowering, node: Node) -> None:
        n, n_heads = n_cols(node.inputs[0]), node.int_attr("n_heads")
        values = dict(zip("rgkvab", map(low.value, node.inputs), strict=True))
        scan(low, node, n, {"params": numbers(n_heads, n // n_heads), **values})
