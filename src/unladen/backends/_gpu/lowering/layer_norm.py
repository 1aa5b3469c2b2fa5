"""Dispatches of :class:`~unladen.graph.ops.layer_norm.LayerNorm`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._norm import norm
from unladen.backends._gpu.lowering.base import Lowering, OpLowering
from unladen.graph.graph import Node


class LayerNorm(OpLowering):
    """A workgroup for each group."""

    op = "layer_norm"
    kernels = frozenset({"layer_norm"})
    features = frozenset({"subgroups"})

    def lower(self, low: Lowering, node: Node) -> None:
        norm(low, node, 1, {"BIAS": "b" in node.weights})
