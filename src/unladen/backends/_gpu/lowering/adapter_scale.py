"""Dispatches of :class:`~unladen.graph.ops.adapter_scale.AdapterScale`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.adapter_scale import strengths


class AdapterScale(OpLowering):
    """A thread for each element."""

    op = "adapter_scale"
    kernels = frozenset({"adapter_scale"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("adapter_scale", y, {
            "params": numbers(n_cols(y)), "strengths": low.constant(strengths(node)),
            "x": low.value(x), "y": low.value(y)})
