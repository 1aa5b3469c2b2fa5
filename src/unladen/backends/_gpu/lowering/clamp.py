"""Dispatches of :class:`~unladen.graph.ops.clamp.Clamp`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class Clamp(OpLowering):
    """A thread for each element."""

    op = "clamp"
    kernels = frozenset({"clamp"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("clamp", y, {"params": numbers(n_cols(y), node.float_attr("limit")),
                                  "x": low.value(x), "y": low.value(y)})
