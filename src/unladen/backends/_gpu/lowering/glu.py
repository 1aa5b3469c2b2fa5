"""Dispatches of :class:`~unladen.graph.ops.glu.Glu`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import (
    Lowering,
    OpLowering,
    activation_flag,
    n_cols,
    numbers,
)
from unladen.graph.graph import Node
from unladen.graph.ops.gated import GatedUnit


class Glu(OpLowering):
    """A thread for each element."""

    op = "glu"
    kernels = frozenset({"glu"})

    def lower(self, low: Lowering, node: Node) -> None:
        (a, b), (y,) = node.inputs, node.outputs
        unit = GatedUnit.of(node)
        params = numbers(n_cols(y), n_cols(b) // n_cols(a), unit.limit, unit.up_offset,
                         unit.gate_cut)
        low.elements("glu", y, {"params": params, "a": low.value(a), "b": low.value(b),
                                "y": low.value(y)},
                     {"LIMITED": unit.limit > 0, **activation_flag(unit.act)})
