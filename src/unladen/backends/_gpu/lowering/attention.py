"""Dispatches of :class:`~unladen.graph.ops.attention.Attention`."""

from __future__ import annotations

import numpy as np

from unladen.backends._gpu.dispatch import Grid, Groups, fold
from unladen.backends._gpu.lowering.base import ANY, Lowering, OpLowering, numbers, row_bytes
from unladen.backends._gpu.lowering.linear import most_few
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import (
    ENOUGH_WORKGROUPS,
    FEWEST_KEYS,
    KEYS_PER_SPLIT,
    MAX_SPLITS,
    TILE_TOKENS,
    Size,
)
from unladen.backends._gpu.target import WORKGROUP_BYTES, Constants, Range, Target
from unladen.backends.base import BackendOptions, PlacedKV
from unladen.graph.graph import KVSpec, Node
from unladen.graph.ops.attention import Scoring
from unladen.types import Limits

THREADS = 128
"""Threads of a workgroup of the kernel that takes rows of any length."""
JOIN_THREADS = 256
"""Threads of a workgroup that joins the shares of a row's keys."""
TILE_ROWS = 16
"""The most query rows of a workgroup."""
TILE_BYTES = WORKGROUP_BYTES - (4 << 10)
"""The most bytes of a workgroup's query rows in a decode step; the rest is for their scores. A tile
of a prefill may need more where rows are long."""
TOTAL_BYTES = WORKGROUP_BYTES - (1 << 10)
"""The most bytes that queries, scores and sums of values of a workgroup may fill together."""
MOST_HEADS = 4
"""Where so many query heads share a key head, matrix units take a token's heads in decode steps;
in a prefill, a workgroup takes at most so many heads of each token."""
LONGEST_MATRIX_ROW = 256
"""The longest keys and values for which registers hold what matrix units add up."""
MATRIX_BYTES = 46 << 10
"""The most bytes of a workgroup of the kernel for matrix units."""
LONGEST_WINDOW = 1 << 30
"""The window of attention without a window."""


class Attention(OpLowering):
    """One kernel for prefills and one for decode steps. Where few workgroups would read many keys,
    a third kernel lets several workgroups share them."""

    op = "attention"
    kernels = frozenset({"attention", "attention_wide", "attention_join"})
    features = frozenset({"subgroups", "mma"})

    def supports(self, node: Node) -> bool:
        scoring = Scoring.of(node)
        return not scoring.spans or scoring.window == 0 or scoring.window_kind != "symmetric"

    def lower(self, low: Lowering, node: Node) -> None:
        placed, n_heads = low.cache(node), node.int_attr("n_heads")
        spec, limits = placed.spec, low.segment.limits
        ranges, formats = _bound(low, node, placed)
        y = ranges["y"]
        can_split = limits.n_blocks_per_seq * placed.layout.block_tokens > FEWEST_KEYS
        types = {placed.layout.k_type, placed.layout.v_type}
        may = "mma" in low.features and types == {"F16"}
        block_tokens = placed.layout.block_tokens if may else 0
        kernel, heads, threads, constants = _kernel(spec, n_heads, 1, block_tokens=block_tokens)
        if kernel == "attention_mma":
            low.split_keys = FEWEST_KEYS
        per_tile = spec.n_kv_heads * -(-(n_heads // spec.n_kv_heads) // heads)
        for split in (False, True) if can_split else (False,):
            if split:
                shares = self.scratch_bytes(node, limits, low.segment.options)
                ranges["y"] = low.scratch(0, shares)
            low.emit(kernel, _grid(per_tile, decode=True, split=split), threads, ranges,
                     {"SPLIT": split, "DECODE": True, **constants, **formats})
        if can_split:
            _join(low, node, ranges["y"])
        if limits.n_tokens > 1:
            ranges["y"] = y
            kernel, heads, threads, constants = _kernel(spec, n_heads, low.tile_tokens,
                                                        block_tokens=block_tokens)
            per_tile = spec.n_kv_heads * -(-(n_heads // spec.n_kv_heads) // heads)
            low.emit(kernel, _grid(per_tile, decode=False), threads, ranges,
                     {**constants, **formats})

    def tile_tokens(self, node: Node, target: Target) -> int:
        """Fewer where rows are so long that a workgroup has too little memory for them."""
        assert node.state is not None
        n_tokens = TILE_TOKENS
        while n_tokens > 1 and target.workgroup_bytes < _shared_bytes(
                node.state, node.int_attr("n_heads"), n_tokens):
            n_tokens //= 2
        return n_tokens

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes for the results of workgroups that share keys."""
        assert node.state is not None
        shares = min(limits.n_seqs * MAX_SPLITS, ENOUGH_WORKGROUPS)
        return 4 * shares * node.int_attr("n_heads") * (node.state.v_dim + 2)


def _bound(low: Lowering, node: Node, placed: PlacedKV
           ) -> tuple[dict[str, Range | bytes], Constants]:
    """The bindings of all kernels, and their constants except the sizes of tiles."""
    spec, layout, n_heads = placed.spec, placed.layout, node.int_attr("n_heads")
    scoring = Scoring.of(node)
    ranges: dict[str, Range | bytes] = {
        "params": numbers(n_heads, spec.n_kv_heads, layout.block_tokens,
                          row_bytes(layout.k_type, spec.k_dim),
                          row_bytes(layout.v_type, spec.v_dim), scoring.scale,
                          min(scoring.window, LONGEST_WINDOW), scoring.softcap),
        "keys": of_gpu(placed.k).whole(), "values": of_gpu(placed.v).whole(),
        "q": low.value(node.inputs[0]), "y": low.value(node.outputs[0])}
    if scoring.alibi:
        ranges["slopes"] = low.constant(scoring.slopes(n_heads).astype(np.float32))
    if "sinks" in node.weights:
        ranges["sinks"] = low.vector(node, "sinks")
    window = scoring.window_kind.upper() if scoring.window else "UNLIMITED"
    return ranges, {
        window: True, "BOTH_SIDES": not scoring.causal, "SOFTCAP": scoring.softcap > 0,
        "ALIBI": scoring.alibi > 0, "SPANS": scoring.spans, "SINKS": "sinks" in ranges,
        f"K_{layout.k_type}": True,
        f"V_{layout.v_type}": True, "KD": spec.k_dim, "VD": spec.v_dim,
        "FIRST_COLUMN": layout.first_column,
        "HEADS_PER_KEY": n_heads // spec.n_kv_heads}


def _kernel(spec: KVSpec, n_heads: int, n_tokens: int, *, block_tokens: int = 0
            ) -> tuple[str, int, int, Constants]:
    """The kernel for tiles of ``n_tokens``, its number of heads of each token, its number of
    threads, and its constants. ``block_tokens``: the tokens of a block of the cache, where matrix
    units may be used."""
    group = n_heads // spec.n_kv_heads
    if (block_tokens and (n_tokens > 1 or group >= MOST_HEADS)
            and spec.k_dim % 16 == spec.v_dim % 16 == 0
            and max(spec.k_dim, spec.v_dim) <= LONGEST_MATRIX_ROW):
        return _by_matrices(spec, group, n_tokens, block_tokens)
    shared_bytes = TOTAL_BYTES - 16 * KEYS_PER_SPLIT * -(-spec.v_dim // (4 * KEYS_PER_SPLIT))
    rows = min(TILE_ROWS, shared_bytes // (4 * (spec.k_dim + 2 * KEYS_PER_SPLIT)))
    if spec.k_dim % 8 == 0 and spec.v_dim % 4 == 0 and rows >= n_tokens:
        heads = min(group, rows // n_tokens)
        # Measured: with long rows, threads for 64 keys wait for one another.
        keys = KEYS_PER_SPLIT if n_tokens > 1 or spec.k_dim <= 64 else KEYS_PER_SPLIT // 2
        return "attention_wide", heads, keys, {"TILE_TOKENS": n_tokens, "TILE_HEADS": heads,
                                               "KT": keys}
    rows = max(1, min(TILE_ROWS, TILE_BYTES // (4 * spec.k_dim)))
    heads = max(1, min(group, rows // n_tokens))
    return "attention", heads, THREADS, {"TILE_TOKENS": n_tokens, "TILE_HEADS": heads,
                                         "KT": _keys(n_tokens * heads)}


def _shared_bytes(spec: KVSpec, n_heads: int, n_tokens: int) -> int:
    """The most bytes of a workgroup's memory that the kernel for tiles of ``n_tokens`` takes,
    without matrix units."""
    kernel, heads, _, constants = _kernel(spec, n_heads, n_tokens)
    if kernel == "attention_wide":
        return WORKGROUP_BYTES
    rows, keys = n_tokens * heads, int(constants["KT"])
    # Queries; scores and weights; the largest score of each row; the places of values.
    return 4 * (rows * (spec.k_dim + 2 * keys + 1) + keys)


def _by_matrices(spec: KVSpec, group: int, n_tokens: int, block_tokens: int
                 ) -> tuple[str, int, int, Constants]:
    """Like :func:`_kernel`, for the kernel that uses matrix units. A warp takes 16 rows."""
    heads = min(group, MOST_HEADS if n_tokens > 1 else TILE_ROWS)
    k_bytes, v_bytes = 16 * (spec.k_dim // 8 | 1), 16 * (spec.v_dim // 8 | 1)
    while True:
        # Tiles of a prefill are no larger than with queries for all of a warp's places: with long
        # rows, registers would not do for larger ones.
        n_rows = heads if n_tokens == 1 else -(-n_tokens * heads // 16) * 16
        rest = MATRIX_BYTES - 2 * n_rows * k_bytes
        if heads == 1 or rest >= 32 * (k_bytes + v_bytes):
            break
        heads = -(-heads // 2)
    keys = 32 if rest >= 32 * (k_bytes + v_bytes) else 16
    return "attention_mma", heads, 32 * -(-n_tokens * heads // 16), {
        "TILE_TOKENS": n_tokens, "TILE_HEADS": heads, "KT": keys,
        "BLOCK_TILES": 0 if block_tokens % keys else block_tokens // keys}


def _keys(n_rows: int) -> int:
    """How many keys a tile has. With fewer rows there are more threads for keys."""
    return THREADS if n_rows == 1 else THREADS // 2 if n_rows == 2 else THREADS // 4


def _grid(per_tile: int, *, decode: bool, split: bool = False) -> Grid:
    def grid(size: Size) -> Groups | None:
        if size.is_decode != decode or (size.n_splits > 1) != split or not size.n_tiles:
            return None
        return size.n_tiles, per_tile, size.n_splits

    return grid


def _join(low: Lowering, node: Node, shares: Range | bytes) -> None:
    """Append the dispatch that joins the shares of keys. Few rows that one product alone reads are
    rounded for it at once; nothing else is stored of them."""
    assert node.state is not None
    (y,), n_heads, rounds = node.outputs, node.int_attr("n_heads"), node.outputs[0] in low.attended
    constants = {"VD": node.state.v_dim, "MAX_SPLITS": MAX_SPLITS}
    ranges: dict[str, Range | bytes] = {"params": numbers(n_heads), "x": shares}
    most = most_few(low, low.attended[y]) if rounds else 0
    if rounds:
        codes, scales = low.joined_codes(y)
        low.emit("attention_join", _join_grid(n_heads, range(1, most + 1)), JOIN_THREADS,
                 {**ranges, "codes": codes, "scales": scales},
                 {"CODED": True, "RUNS": 2, **constants})
    if low.segment.limits.n_seqs > most:
        low.emit("attention_join", _join_grid(n_heads, range(most + 1, ANY.stop)), JOIN_THREADS,
                 {**ranges, "y": low.value(y)}, constants)


def _join_grid(n_heads: int, within: range) -> Grid:
    def grid(size: Size) -> Groups | None:
        if size.n_splits == 1 or size.n_tokens not in within:
            return None
        return *fold(size.n_tokens * n_heads), 1

    return grid
