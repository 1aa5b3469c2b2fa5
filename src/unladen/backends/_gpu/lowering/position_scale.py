"""Dispatches of :class:`~unladen.graph.ops.position_scale.PositionScale`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, numbers
from unladen.graph.graph import Node


class PositionScale(OpLowering):
    """A thread for each position."""

    op = "position_scale"
    kernels = frozenset({"position_scale"})

    def lower(self, low: Lowering, node: Node) -> None:
        (y,) = node.outputs
        params = numbers(node.int_attr("length"), node.int_attr("offset"),
                         node.float_attr("scale"))
        low.elements("position_scale", y, {"params": params, "y": low.value(y)})
