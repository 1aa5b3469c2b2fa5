"""The paged cache: writing rows into it, and attention over it."""

from __future__ import annotations

import numpy as np

from unladen.backends.base import PlacedKV
from unladen.backends.wgpu.gpu import Range
from unladen.backends.wgpu.lower import Lowering, fold, row_bytes, whole
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.program import (
    ENOUGH_WORKGROUPS,
    KEYS_PER_SPLIT,
    MAX_SPLITS,
    TILE_TOKENS,
    Grid,
    Groups,
    Size,
)
from unladen.backends.wgpu.source import Constants
from unladen.graph.graph import KVSpec, Node
from unladen.graph.ops.attention import Scoring
from unladen.types import Limits

THREADS = 128
TILE_ROWS, TILE_BYTES = 16, 12 << 10
"""Query rows of a workgroup, and their bytes: with the scores below the 16 KiB of workgroup memory
that every device has. A tile of a prefill may need more where rows are long."""
WORKGROUP_BYTES = 15 << 10
"""Of the 16 KiB that every device has, what queries, scores and sums of values may fill."""
CACHE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 2}
"""Numbers of the formats in kernels/kv_write.wgsl."""
LONGEST_WINDOW = 1 << 30


def kv_write(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.attention.KVWrite`."""
    placed = cache_of(low, node)
    spec, layout = placed.spec, placed.layout
    k, v = node.inputs
    sides = ((layout.k_type, spec.k_dim), (layout.v_type, spec.v_dim))
    per_token = sum(spec.n_kv_heads * dim // (32 if quant == "Q8_0" else 2) for quant, dim in sides)

    def grid(size: Size) -> Groups | None:
        n = size.n_tokens * per_token
        return (*fold(-(-n // 64)), 1) if n else None

    rows = [n for quant, dim in sides for n in (dim, row_bytes(quant, dim))]
    low.emit("kv_write", grid, {
        "params": low.params(spec.n_kv_heads, layout.block_tokens, *rows),
        "k": low.value(k), "v": low.value(v), "keys": whole(of_gpu(placed.k)),
        "values": whole(of_gpu(placed.v))},
        {"K_TYPE": CACHE_TYPES[layout.k_type], "V_TYPE": CACHE_TYPES[layout.v_type]})


def attention(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.attention.Attention`: one kernel for prefills, one for decode
    steps, and where few workgroups would read many keys, one whose workgroups share them."""
    placed = cache_of(low, node)
    spec, layout, n_heads = placed.spec, placed.layout, node.int_attr("n_heads")
    limits, scoring = low.segment.limits, Scoring.of(node)
    y = low.value(node.outputs[0])
    ranges: dict[str, Range | int] = {
        "params": low.params(n_heads, spec.n_kv_heads, layout.block_tokens,
                             row_bytes(layout.k_type, spec.k_dim),
                             row_bytes(layout.v_type, spec.v_dim), scoring.scale,
                             min(scoring.window, LONGEST_WINDOW), scoring.softcap),
        "keys": whole(of_gpu(placed.k)), "values": whole(of_gpu(placed.v)),
        "q": low.value(node.inputs[0]), "y": y}
    if scoring.alibi:
        ranges["slopes"] = low.constant(scoring.slopes(n_heads).astype(np.float32))
    if "sinks" in node.weights:
        ranges["sinks"] = low.vector(node, "sinks")
    formats = {**_flags(scoring), "SINKS": "sinks" in ranges,
               f"K_{layout.k_type}": True, f"V_{layout.v_type}": True,
               "KD": spec.k_dim, "VD": spec.v_dim}
    can_split = limits.n_blocks_per_seq * layout.block_tokens > KEYS_PER_SPLIT
    kernel, heads, constants = _kernel(spec, n_heads, 1)
    per_tile = spec.n_kv_heads * -(-(n_heads // spec.n_kv_heads) // heads)
    for split in (False, True) if can_split else (False,):
        if split:
            ranges["y"] = low.scratch(0, attention_scratch(node, limits))
        low.emit(kernel, _grid(per_tile, decode=True, split=split), ranges,
                 {"SPLIT": split, **constants, **formats})
    if can_split:
        low.emit("attention_join", _join_grid(n_heads), {
            "params": low.params(n_heads), "x": ranges["y"], "y": y},
            {"VD": spec.v_dim, "MAX_SPLITS": MAX_SPLITS})
    if limits.n_tokens > 1:
        ranges["y"] = y
        kernel, heads, constants = _kernel(spec, n_heads, TILE_TOKENS)
        per_tile = spec.n_kv_heads * -(-(n_heads // spec.n_kv_heads) // heads)
        low.emit(kernel, _grid(per_tile, decode=False), ranges, {**constants, **formats})


def _kernel(spec: KVSpec, n_heads: int, n_tokens: int) -> tuple[str, int, Constants]:
    """Which takes tiles of ``n_tokens``, how many heads of each, and for what it is compiled."""
    group = n_heads // spec.n_kv_heads
    shared_bytes = WORKGROUP_BYTES - 16 * KEYS_PER_SPLIT * -(-spec.v_dim // (4 * KEYS_PER_SPLIT))
    rows = min(TILE_ROWS, shared_bytes // (4 * (spec.k_dim + 2 * KEYS_PER_SPLIT)))
    if spec.k_dim % 8 == 0 and spec.v_dim % 4 == 0 and rows >= n_tokens:
        heads = min(group, rows // n_tokens)
        # Measured: long rows leave the threads of 64 keys waiting for one another.
        keys = KEYS_PER_SPLIT if n_tokens > 1 or spec.k_dim <= 64 else KEYS_PER_SPLIT // 2
        return "attention_wide", heads, {"TILE_TOKENS": n_tokens, "TILE_HEADS": heads, "KT": keys}
    rows = max(1, min(TILE_ROWS, TILE_BYTES // (4 * spec.k_dim)))
    heads = max(1, min(group, rows // n_tokens))
    return "attention", heads, {"TILE_TOKENS": n_tokens, "TILE_HEADS": heads,
                                "KT": _keys(n_tokens * heads), "WG": THREADS}


def _flags(scoring: Scoring) -> Constants:
    """What kernels/parts/scoring.wgsl is compiled for."""
    window = scoring.window_kind.upper() if scoring.window else "UNLIMITED"
    return {window: True, "BOTH_SIDES": not scoring.causal, "SOFTCAP": scoring.softcap > 0,
            "ALIBI": scoring.alibi > 0}


def cache_of(low: Lowering, node: Node) -> PlacedKV:
    """The cache of the node's layer."""
    assert node.state is not None
    return low.segment.kv[node.state.layer]


def _keys(n_rows: int) -> int:
    """Keys of a tile: fewer rows leave more threads for them."""
    return THREADS if n_rows == 1 else THREADS // 2 if n_rows == 2 else THREADS // 4


def _grid(per_tile: int, *, decode: bool, split: bool = False) -> Grid:
    def grid(size: Size) -> Groups | None:
        if size.is_decode != decode or (size.n_splits > 1) != split or not size.n_tiles:
            return None
        return size.n_tiles, per_tile, size.n_splits

    return grid


def _join_grid(n_heads: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        return None if size.n_splits == 1 else (*fold(size.n_tokens * n_heads), 1)

    return grid


def attention_scratch(node: Node, limits: Limits) -> int:
    """Bytes of what the workgroups find that share keys."""
    assert node.state is not None
    shares = min(limits.n_seqs * MAX_SPLITS, ENOUGH_WORKGROUPS)
    return 4 * shares * node.int_attr("n_heads") * (node.state.v_dim + 2)
