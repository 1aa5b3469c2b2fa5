"""Dispatches of :class:`~unladen.graph.ops.softcap.Softcap`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node


class Softcap(OpLowering):
    """A thread for each element."""

    op = "softcap"
    kernels = frozenset({"softcap"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("softcap", y, {"params": numbers(n_cols(y), node.float_attr("cap")),
                                    "x": low.value(x), "y": low.value(y)})
