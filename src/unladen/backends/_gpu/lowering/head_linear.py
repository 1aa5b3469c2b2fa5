"""Dispatches of :class:`~unladen.graph.ops.head_linear.HeadLinear`."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Groups, fold
from unladen.backends._gpu.lowering._matrix import ROWS_PER_GROUP, Matrix, stacked
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, numbers, rows_word, symbol
from unladen.backends._gpu.step import Size
from unladen.graph.graph import Node
from unladen.graph.ops.head_linear import head_width


class HeadLinear(OpLowering):
    """A workgroup for a few rows of each head's matrix and each token."""

    op = "head_linear"
    kernels = frozenset({"head_linear"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        n_heads, width = node.weights["w"].shape[0], head_width(node)
        ranges = {"x": low.value(x), "y": low.value(y)}
        for m in stacked(low, node, "w"):
            def grid(size: Size, m: Matrix = m) -> Groups | None:
                n = size.rows(symbol(x))
                return (*fold(-(-m.n_out // ROWS_PER_GROUP) * m.n_rows * n), 1) if n else None

            constants = {"ALL_OUT": ROWS_PER_GROUP, "ROW_KIND": rows_word(symbol(x)), **m.few}
            # Heads of a width that isn't a multiple of 4 are read number by number.
            constants["WHOLE"] = not constants["RAGGED"]
            constants["RAGGED"] = bool(constants["RAGGED"]) or width % 4 > 0
            low.emit("head_linear", grid, m.threads(), {
                **ranges, "m": m.params, "w": m.at,
                "heads": numbers(n_heads, width, m.first_row)}, constants, quant=m.quant)
