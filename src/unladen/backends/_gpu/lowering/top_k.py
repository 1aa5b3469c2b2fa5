"""Dispatches of :class:`~unladen.graph.ops.top_k.TopK`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._rounds import PAIR_BYTES, THREADS, chosen_grid
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.backends._gpu.target import ALIGNMENT, WORKGROUP_BYTES, Range
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Node
from unladen.types import Limits

TILE = WORKGROUP_BYTES // PAIR_BYTES
"""How many pairs a workgroup sorts; they fill its memory."""


class TopK(OpLowering):
    """Rounds in which each workgroup keeps the ``k`` largest of a tile, until one tile is left."""

    op = "top_k"
    kernels = frozenset({"top_k"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (places, y) = node.inputs, node.outputs
        k, n, n_rows = node.int_attr("k"), n_cols(x), low.segment.limits.bind(y.shape[0])
        rounds, at = _rounds(n, k), low.value(x)
        # Rounds use two areas in turn: each reads one, which the round before wrote.
        turns = 0, _kept_bytes(n_rows, rounds[0], k)
        for i, n_tiles in enumerate(rounds):
            ranges: dict[str, Range | bytes] = {"params": numbers(n, n_tiles, k), "x": at}
            if n_tiles == 1:
                ranges |= {"places": low.value(places), "y": low.value(y)}
            else:
                at = low.scratch(turns[i % 2], _kept_bytes(n_rows, n_tiles, k))
                ranges["kept"] = at
            low.emit("top_k", chosen_grid(node, n_tiles), THREADS, ranges,
                     {"TILE": TILE, "FIRST": i == 0, "LAST": n_tiles == 1})
            n = n_tiles * k

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes for the results of two rounds."""
        n, n_rows, k = n_cols(node.inputs[0]), limits.bind(node.inputs[0].shape[0]), node.int_attr(
            "k")
        return sum(_kept_bytes(n_rows, n_tiles, k) for n_tiles in _rounds(n, k)[:2] if n_tiles > 1)


def _rounds(n: int, k: int) -> list[int]:
    """The number of workgroups for each row in each round."""
    found = [-(-n // TILE)]
    while found[-1] > 1:
        found.append(-(-found[-1] * k // TILE))
    return found


def _kept_bytes(n_rows: int, n_tiles: int, k: int) -> int:
    return -(-PAIR_BYTES * n_rows * n_tiles * k // ALIGNMENT) * ALIGNMENT
