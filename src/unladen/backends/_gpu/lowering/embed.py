"""Dispatches of :class:`~unladen.graph.ops.embed.Embed`."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Groups
from unladen.backends._gpu.lowering._matrix import matrices
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, symbol
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.step_header import WORDS
from unladen.graph.graph import Node

COLUMNS = 8
"""How many columns a thread decodes."""
THREADS = 64
"""Threads of a workgroup."""


class Embed(OpLowering):
    """One dispatch for each piece of the table, with a row of workgroups for each token."""

    op = "embed"
    kernels = frozenset({"embed"})

    def lower(self, low: Lowering, node: Node) -> None:
        (ids,), (y,) = node.inputs, node.outputs
        ids_word = WORDS[low.segment.batch_inputs[ids]]
        for m in matrices(low, node, "w"):
            n_groups = -(-m.n_in // (COLUMNS * THREADS))

            def grid(size: Size, n_groups: int = n_groups) -> Groups | None:
                return (n_groups, size.rows(symbol(y)), 1) if size.rows(symbol(y)) else None

            low.emit("embed", grid, THREADS, {"m": m.params, "w": m.at, "y": low.value(y)},
                     {"IDS": ids_word, **m.constants}, quant=m.quant)
