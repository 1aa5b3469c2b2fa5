"""Dispatches of :class:`~unladen.graph.ops.embed.Embed`."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Groups, fold
from unladen.backends._gpu.lowering._matrix import matrices
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, rows_word, symbol
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.step_header import WORDS
from unladen.graph.graph import Node

COLUMNS = 8
"""How many columns a thread decodes."""
THREADS = 64
"""Threads of a workgroup."""


class Embed(OpLowering):
    """One dispatch for each piece of the table, with as many workgroups for each token."""

    op = "embed"
    kernels = frozenset({"embed"})

    def lower(self, low: Lowering, node: Node) -> None:
        (ids,), (y,) = node.inputs, node.outputs
        ids_word = WORDS[low.segment.batch_inputs[ids]]
        for m in matrices(low, node, "w"):
            n_groups = -(-m.n_in // (COLUMNS * THREADS))

            def grid(size: Size, n_groups: int = n_groups) -> Groups | None:
                n = size.rows(symbol(y))
                return (*fold(n_groups * n), 1) if n else None

            low.emit("embed", grid, THREADS, {"m": m.params, "w": m.at, "y": low.value(y)},
                     {"IDS": ids_word, "ROW_KIND": rows_word(symbol(y)), **m.constants},
                     quant=m.quant)
