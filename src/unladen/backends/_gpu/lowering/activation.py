"""Dispatches of :class:`~unladen.graph.ops.activation.ActivationOp`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import (
    Lowering,
    OpLowering,
    activation_flag,
    n_cols,
    numbers,
)
from unladen.graph.graph import Node


class Activation(OpLowering):
    """A thread for each element."""

    op = "activation"
    kernels = frozenset({"activation"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        low.elements("activation", y, {"params": numbers(n_cols(y)), "x": low.value(x),
                                       "y": low.value(y)}, activation_flag(node.attrs["act"]))
