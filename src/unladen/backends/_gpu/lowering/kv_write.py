"""Dispatches of :class:`~unladen.graph.ops.attention.KVWrite`."""

from __future__ import annotations

from unladen.backends._gpu.dispatch import Groups, fold
from unladen.backends._gpu.joining import NORM_WRITE, Normed
from unladen.backends._gpu.lowering.base import (
    Lowering,
    OpLowering,
    n_cols,
    numbers,
    row_bytes,
    threads_for,
)
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Range
from unladen.graph.graph import Node
from unladen.graph.ops.rope import first_rotated

CACHE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 2}
"""The number of each format in the kernel's constants."""
THREADS = 64
"""Threads of a workgroup."""


class KVWrite(OpLowering):
    """A thread for each two numbers of a row, or for each block of 32 in Q8_0. It also rotates keys
    and queries where nothing else reads the rotated keys. For few tokens the product that makes
    keys and values may store them itself. Where norms of heads come before, a workgroup takes a
    whole head, and norms it first."""

    op = "kv_write"
    kernels = frozenset({"kv_write"})
    features = frozenset({"subgroups"})

    def lower(self, low: Lowering, node: Node) -> None:
        if node in low.normed:
            _normed(low, low.normed[node])
            return
        placed = low.cache(node)
        spec, layout = placed.spec, placed.layout
        k, v = node.inputs
        sides = ((layout.k_type, spec.k_dim), (layout.v_type, spec.v_dim))
        per_token = sum(spec.n_kv_heads * dim // (32 if quant == "Q8_0" else 2)
                        for quant, dim in sides)
        rows = [n for quant, dim in sides for n in (dim, row_bytes(quant, dim))]
        params = numbers(spec.n_kv_heads, layout.block_tokens, *rows)
        ranges: dict[str, Range | bytes] = {"v": low.value(v), "keys": of_gpu(placed.k).whole(),
                                            "values": of_gpu(placed.v).whole()}
        rope = low.turned.get(k)
        if rope is None:
            ranges |= {"params": params, "k": low.value(k)}
        else:
            queries, keys, table = rope.inputs
            per_token += n_cols(queries) // 2
            ranges |= {"params": params + numbers(n_cols(queries), n_cols(table),
                                                  int(rope.attrs["style"] == "neox"),
                                                  first_rotated(rope)),
                       "k": low.value(keys), "x": low.value(queries),
                       "y": low.value(rope.outputs[0]), "table": low.value(table)}

        done = low.done_for_few.get(node, 0)
        if low.most("T") <= done:
            return

        def grid(size: Size) -> Groups | None:
            n = size.n_tokens * per_token
            return (*fold(-(-n // THREADS)), 1) if size.n_tokens > done else None

        low.emit("kv_write", grid, THREADS, ranges, {
            "K_TYPE": CACHE_TYPES[layout.k_type], "V_TYPE": CACHE_TYPES[layout.v_type],
            "FIRST_COLUMN": layout.first_column, "TURNED": rope is not None})


def _normed(low: Lowering, each: Normed) -> None:
    """Append the dispatch that norms heads of queries and of keys and does all that follows."""
    placed, rope = low.cache(each.write), each.rope
    spec, layout = placed.spec, placed.layout
    queries, keys = each.queries.inputs[0], each.keys.inputs[0]
    n_queries = n_cols(queries) // spec.k_dim
    fields = [n_queries, spec.n_kv_heads, layout.block_tokens,
              spec.k_dim, row_bytes(layout.k_type, spec.k_dim),
              spec.v_dim, row_bytes(layout.v_type, spec.v_dim),
              each.queries.float_attr("eps"), each.keys.float_attr("eps")]
    ranges: dict[str, Range | bytes] = {
        "x": low.value(queries), "k": low.value(keys), "v": low.value(each.write.inputs[1]),
        "query_w": low.vector(each.queries, "w"), "key_w": low.vector(each.keys, "w"),
        "y": low.value(each.result),
        "keys": of_gpu(placed.k).whole(), "values": of_gpu(placed.v).whole()}
    if rope is not None:
        table = rope.inputs[-1]
        fields += [n_cols(table), int(rope.attrs["style"] == "neox"), first_rotated(rope)]
        ranges["table"] = low.value(table)
    low.one_each(NORM_WRITE, queries, n_queries + spec.n_kv_heads, threads_for(spec.k_dim), {
        "params": numbers(*fields), **ranges}, {
            "ROW": spec.k_dim, "K_TYPE": CACHE_TYPES[layout.k_type],
            "V_TYPE": CACHE_TYPES[layout.v_type], "FIRST_COLUMN": layout.first_column,
            "TURNED": rope is not None})
