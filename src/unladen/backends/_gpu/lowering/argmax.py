"""Dispatches of :class:`~unladen.graph.ops.argmax.Argmax`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._rounds import PAIR_BYTES, THREADS, chosen_grid
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers, threads_for
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Node
from unladen.types import Limits

TILE = 4096
"""How many logits a workgroup reads to find the largest."""


class Argmax(OpLowering):
    """One workgroup for each tile of a row finds the tile's largest; then one workgroup finds the
    largest of the row."""

    op = "argmax"
    kernels = frozenset({"argmax"})
    features = frozenset({"subgroups"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y,) = node.inputs, node.outputs
        n_tiles = -(-n_cols(x) // TILE)
        params = numbers(n_cols(x), n_tiles)
        tiles = low.scratch(0, self.scratch_bytes(node, low.segment.limits, low.segment.options))
        low.emit("argmax", chosen_grid(node, n_tiles), THREADS,
                 {"params": params, "tiles": tiles, "x": low.value(x)},
                 {"TILE": TILE, "FOURS": n_cols(x) % 4 == 0})
        low.emit("argmax", chosen_grid(node, 1), threads_for(4 * n_tiles),
                 {"params": params, "tiles": tiles, "y": low.value(y)}, {"LAST": True})

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes for the largest logit of each tile."""
        x = node.inputs[0]
        return PAIR_BYTES * limits.bind(x.shape[0]) * -(-n_cols(x) // TILE)
