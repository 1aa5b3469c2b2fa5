"""Grids of argmax and top_k, which run in rounds; each round keeps fewer (logit, place) pairs."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Grid, Groups
from unladen.backends._gpu.lowering.base import symbol
from unladen.backends._gpu.step import Size
from unladen.graph.graph import Node

PAIR_BYTES = 8
"""Bytes of a logit and its place in the row."""
THREADS = 256
"""Threads of a workgroup."""


def chosen_grid(node: Node, n_tiles: int) -> Grid:
    """A grid of ``n_tiles`` workgroups for each row; None in steps that don't read the results of
    ``node``."""
    rows = symbol(node.outputs[0])

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return (n_tiles, n, 1) if n and node.op not in size.skip else None

    return grid
