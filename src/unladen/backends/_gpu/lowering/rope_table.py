"""Dispatches of :class:`~unladen.graph.ops.rope.RopeTable`."""

from __future__ import annotations

import numpy as np

from unladen.backends._gpu import step
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.rope import axes_of, positions_back


class RopeTable(OpLowering):
    """Copies a table that the host computes and uploads with the step, since kernels have no
    float64 and float32 can't hold the angle of a far position."""

    op = "rope_table"
    kernels = frozenset({"rope_table"})

    def lower(self, low: Lowering, node: Node) -> None:
        (y,) = node.outputs
        freqs = node.attrs["freqs"]
        assert isinstance(freqs, tuple)
        low.tables.append(step.RopeTable(np.asarray(freqs, np.float64),
                                         node.float_attr("magnitude"), positions_back(node),
                                         axes_of(node)))
        low.elements("rope_table", y, {"params": numbers(n_cols(y), len(low.tables) - 1),
                                       "y": low.value(y)})
