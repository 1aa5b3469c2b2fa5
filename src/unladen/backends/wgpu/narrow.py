"""What is chosen from the logits on the device: argmax and top_k."""

from __future__ import annotations

from unladen.backends.wgpu.gpu import ALIGNMENT, Range
from unladen.backends.wgpu.lower import Lowering, n_cols, symbol
from unladen.backends.wgpu.program import Grid, Groups, Size
from unladen.graph.graph import Node
from unladen.types import Limits

ARGMAX_TILE = 4096
TOP_K_TILE = 2048
"""(key, place) of so many fill the 16 KiB that a workgroup has on every device."""
PAIR_BYTES = 8


def argmax(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.argmax.Argmax`."""
    (x,), (y,) = node.inputs, node.outputs
    n, limits = n_cols(x), low.segment.limits
    n_tiles = -(-n // ARGMAX_TILE)
    params = low.params(n, n_tiles)
    tiles = low.scratch(0, PAIR_BYTES * n_tiles * limits.bind(y.shape[0]))
    low.emit("argmax", _grid(node, n_tiles), {"params": params, "tiles": tiles, "x": low.value(x)},
             {"TILE": ARGMAX_TILE})
    low.emit("argmax", _grid(node, 1), {"params": params, "tiles": tiles, "y": low.value(y)},
             {"LAST": True})


def top_k(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.top_k.TopK`."""
    (x,), (places, y) = node.inputs, node.outputs
    k, n, n_rows = node.int_attr("k"), n_cols(x), low.segment.limits.bind(y.shape[0])
    rounds, at = _rounds(n, k), low.value(x)
    # Rounds write by turns: each reads what the one before it kept.
    turns = 0, _kept_bytes(n_rows, rounds[0], k)
    for i, n_tiles in enumerate(rounds):
        ranges: dict[str, Range | int] = {"params": low.params(n, n_tiles, k), "x": at}
        if n_tiles == 1:
            ranges |= {"places": low.value(places), "y": low.value(y)}
        else:
            at = low.scratch(turns[i % 2], _kept_bytes(n_rows, n_tiles, k))
            ranges["kept"] = at
        low.emit("top_k", _grid(node, n_tiles), ranges,
                 {"TILE": TOP_K_TILE, "FIRST": i == 0, "LAST": n_tiles == 1})
        n = n_tiles * k


def _rounds(n: int, k: int) -> list[int]:
    """Workgroups for each row, round by round."""
    found = [-(-n // TOP_K_TILE)]
    while found[-1] > 1:
        found.append(-(-found[-1] * k // TOP_K_TILE))
    return found


def _kept_bytes(n_rows: int, n_tiles: int, k: int) -> int:
    return -(-PAIR_BYTES * n_rows * n_tiles * k // ALIGNMENT) * ALIGNMENT


def _grid(node: Node, n_tiles: int) -> Grid:
    rows = symbol(node.outputs[0])

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return (n_tiles, n, 1) if n and node.op not in size.skip else None

    return grid


def narrow_scratch(node: Node, limits: Limits) -> int:
    """Bytes of what the rounds hand on."""
    n, n_rows = n_cols(node.inputs[0]), limits.bind(node.inputs[0].shape[0])
    if node.op == "argmax":
        return PAIR_BYTES * n_rows * -(-n // ARGMAX_TILE)
    k = node.int_attr("k")
    return sum(_kept_bytes(n_rows, n_tiles, k) for n_tiles in _rounds(n, k)[:2] if n_tiles > 1)
