"""Keys and values of a paged cache, and attention over them.

A cache is a matrix of rows: row ``(block * n_kv_heads + head) * block_tokens + slot``. New rows go
there by ``ggml_set_rows``; attention takes a sequence's rows out by ``ggml_get_rows``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unladen.backends._kv_rows import encoded
from unladen.backends.base import PlacedKV
from unladen.backends.ggml.building import F32, I32, I64, Builder
from unladen.backends.ggml.library import Library
from unladen.backends.ggml.memory import of_ggml, write
from unladen.backends.ggml.sizes import Sizes, visible_keys
from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec, Node
from unladen.graph.ops.attention import Scoring

F32s = npt.NDArray[np.float32]
"""An array of float32."""
FLOAT: Final = 4
"""Bytes of a float32."""
F16: Final = 1
"""ggml's number of float16."""
MOST_SCORES: Final = 1 << 22
"""Scores that are computed at once."""
SLACK: Final = 1 << 14
"""Bytes for the gaps between the temporaries of a part."""
HIDDEN: Final = -1e30
"""The score of a key that a token doesn't see; its weight is then 0."""


def _spec(node: Node) -> KVSpec:
    assert node.state is not None
    return node.state


def kv_write(b: Builder, node: Node) -> None:
    """Write the new rows of a cache in F32 or F16."""
    spec, n_rows = _spec(node), b.sizes.n_tokens
    placed = b.placed_kv(node)
    key = ("new rows", *_geometry(placed), spec.n_kv_heads)

    def fill(batch: Batch) -> npt.NDArray[Any]:
        assert placed is not None
        n = batch.n_tokens
        rows = _cache_rows(placed, batch, batch.seq_of[:n], batch.index[:n])
        return np.ascontiguousarray(rows.T.reshape(-1).astype(np.int64))
    where = b.input(key, I64, (n_rows * spec.n_kv_heads,), fill)
    shapes = (spec.k_dim, spec.n_kv_heads, n_rows), (spec.v_dim, spec.n_kv_heads, n_rows)
    k, v = (b.view("reshape_3d", b.value(x), *shape)
            for x, shape in zip(node.inputs, shapes, strict=True))
    k_type, v_type = ("F16", "F16") if placed is None else (placed.layout.k_type,
                                                            placed.layout.v_type)
    if k_type == "F16":
        off = _beyond(b, k)
        # A NaN score may lead to a finite weight, but a NaN value makes every sum NaN.
        lost = b.op("scale_bias", b.op("sum_rows", off), 1.0, 1.0)
        first = b.op("mul", b.view("view_3d", v, 1, *shapes[1][1:], spec.v_dim * FLOAT,
                                   spec.v_dim * spec.n_kv_heads * FLOAT, 0), lost)
        if spec.v_dim > 1:
            others = b.view("view_3d", v, spec.v_dim - 1, *shapes[1][1:], spec.v_dim * FLOAT,
                            spec.v_dim * spec.n_kv_heads * FLOAT, FLOAT)
            v = b.op("concat", first, b.op("cont", others), 0)
        else:
            v = first
        k = b.op("mul", k, b.op("scale_bias", off, 1.0, 1.0))
    if v_type == "F16":
        v = b.op("mul", v, b.op("scale_bias", _beyond(b, v), 1.0, 1.0))
    for which, x, (width, *rest) in (("k", k, shapes[0]), ("v", v, shapes[1])):
        flat = b.view("reshape_2d", x, width, rest[0] * rest[1])
        b.wrote_cache(node, which, b.op("set_rows", b.cache(node, which), flat, where))


def _beyond(b: Builder, x: int) -> int:
    """0 for numbers that float16 holds, NaN for larger ones. ``abs`` gives NaN its usual bits."""
    as_float16 = b.op("cast", b.op("cast", x, F16), F32)
    return b.op("abs", b.op("scale_bias", as_float16, 0.0, 0.0))


def attention(b: Builder, node: Node) -> None:
    """Attend sequence by sequence, some tokens at a time."""
    spec, n_heads, scoring = _spec(node), node.int_attr("n_heads"), Scoring.of(node)
    q, out = b.value(node.inputs[0]), b.value(node.outputs[0])
    in_bytes, out_bytes = n_heads * spec.k_dim * FLOAT, n_heads * spec.v_dim * FLOAT
    for seq, rows in enumerate(b.sizes.seqs):
        n = visible_keys(scoring, rows)
        seen = Seen(b, node, scoring, seq, n)
        k, v = (b.view("reshape_3d", b.op("get_rows", b.cache(node, which), seen.rows), width, n,
                       spec.n_kv_heads)
                for which, width in (("k", spec.k_dim), ("v", spec.v_dim)))
        v = b.op("cont", b.view("permute", v, 1, 0, 2, 3))
        b.flush(keep=True)
        step = tokens_at_once(b, n_heads * n)
        for first in range(rows.first, rows.last, step):
            count = min(step, rows.last - first)
            part = b.view("view_3d", q, spec.k_dim, count, n_heads, in_bytes, spec.k_dim * FLOAT,
                          first * in_bytes)
            scores = b.op("mul_mat", k, part)
            mask = seen.mask(b, first - rows.first, count)
            scores = _softmax(b, node, scoring, scores, mask)
            y = b.view("permute", b.op("mul_mat", v, scores), 0, 2, 1, 3)
            b.op("cpy", y, b.view("view_3d", out, spec.v_dim, n_heads, count, spec.v_dim * FLOAT,
                                  out_bytes, first * out_bytes))
            b.flush()
        b.release()
    if b.segment is None:  # a step with fewer keys attends for all its tokens at once
        b.scratch_bytes += b.sizes.n_tokens * out_bytes + SLACK


def tokens_at_once(b: Builder, n: int) -> int:
    """The tokens of a part, where each has ``n`` scores. A builder that counts takes no fewer
    scores than any step does."""
    return -(-MOST_SCORES // n) if b.segment is None else max(1, MOST_SCORES // n)


def n_parts(node: Node, sizes: Sizes) -> int:
    """The parts in which the node attends, no fewer than there are."""
    if node.op != "attention":
        return 0
    n_heads = node.int_attr("n_heads")
    return sum(1 + -(-rows.n // max(1, MOST_SCORES // (n_heads * rows.n_keys)))
               for rows in sizes.seqs)


def needs_host(placed: PlacedKV) -> bool:
    """Whether the host encodes the new rows: ggml rounds to Q8_0 a little otherwise."""
    return "Q8_0" in (placed.layout.k_type, placed.layout.v_type)


def write_on_host(library: Library, placed: PlacedKV, batch: Batch, k: F32s, v: F32s) -> None:
    """Encode the new rows k [T, n_kv_heads, k_dim] and v [T, n_kv_heads, v_dim] and write them to
    the cache."""
    n = batch.n_tokens
    where = _cache_rows(placed, batch, batch.seq_of[:n], batch.index[:n]).T.reshape(-1)
    for rows, buffer in zip(encoded(placed.layout, k, v), (placed.k, placed.v), strict=True):
        width = rows.shape[-1]
        for row, data in zip(where.tolist(), rows.reshape(-1, width), strict=True):
            write(library, of_ggml(buffer), data, row * width)


def _softmax(b: Builder, node: Node, scoring: Scoring, scores: int, mask: int) -> int:
    scale = scoring.scale
    if scoring.softcap:
        scores = b.op("tanh", b.op("scale_bias", scores, scale / scoring.softcap, 0.0))
        scores, scale = b.op("scale_bias", scores, scoring.softcap, 0.0), 1.0
    weights = b.op("soft_max_ext", scores, mask, scale, 0.0)
    if "sinks" in node.weights:
        weight = node.weights["sinks"]
        b.library["soft_max_add_sinks"](weights, b.view("reshape_1d", b.weight(weight),
                                                        weight.n_elements))
    return weights


class Seen:
    """The keys that the tokens of one sequence of a step see: ``n`` of them, from the first one
    that any token sees. A token sees the keys from ``low`` to ``high``."""

    def __init__(self, b: Builder, node: Node, scoring: Scoring, seq: int, n: int) -> None:
        # The builder keeps functions of this object, which doesn't keep the builder: memory would
        # stay until the garbage collector finds the circle.
        self._scoring, self._seq, self._n = scoring, seq, n
        self._n_heads = node.int_attr("n_heads")
        placed = b.placed_kv(node)
        self._key = (*_geometry(placed), scoring.window, scoring.window_kind, scoring.causal,
                     scoring.spans, seq, n)
        n_kv_heads = _spec(node).n_kv_heads

        def rows(batch: Batch) -> npt.NDArray[Any]:
            assert placed is not None
            keys, _, high, _ = self._places(batch)
            # Rows that no token sees may hold anything, so that a seen one takes their place.
            keys = np.where(keys <= high.max(), keys, keys[0])
            return _cache_rows(placed, batch, seq, keys).astype(np.int32).reshape(-1)
        self.rows = b.input(("rows", *self._key, n_kv_heads), I32, (n_kv_heads * n,), rows)

    def _places(self, batch: Batch) -> tuple[npt.NDArray[Any], ...]:
        """Indices of the keys [n], and for each token of the sequence [T] the first and the last
        key that it sees, and its own index."""
        scoring, seq = self._scoring, self._seq
        tokens = slice(batch.q_start[seq], batch.q_start[seq + 1])
        own = batch.index[tokens].astype(np.int64)
        low, high = np.zeros_like(own), np.full_like(own, batch.kv_len[seq] - 1)
        if scoring.causal:
            high = batch.sees_to[tokens].astype(np.int64) if scoring.spans else own
        w = scoring.window
        if w and scoring.window_kind == "sliding":
            low = own - w + 1
        elif w and scoring.window_kind == "chunked":
            low = own // w * w
        elif w:
            low, high = own - w // 2, np.minimum(high, own + w // 2)
        low = np.maximum(low, 0)
        return low.min() + np.arange(self._n), low, high, own

    def mask(self, b: Builder, first: int, count: int) -> int:
        """What is added to the scores of ``count`` tokens from ``first`` on: [n, count], with
        ALiBi [n, count, n_heads]."""
        n = self._n

        def part(i: int, shape: tuple[int, ...]) -> int:
            def fill(batch: Batch) -> npt.NDArray[Any]:
                array = self._places(batch)[i]
                return (array if i == 0 else array[first:first + count]).astype(np.float32)
            return b.input(("part", i, *self._key, *shape, first), F32, shape, fill)
        keys = b.op("repeat", part(0, (n, 1)), b.shape(n, count))
        above = b.op("sub", keys, part(2, (1, count)))
        below = b.op("sub", keys, part(1, (1, count)))
        # Each is 1 for hidden keys and 0 for others; indices are whole numbers.
        hidden = b.op("add", b.op("step", b.op("scale_bias", above, 1.0, -0.5)),
                      b.op("step", b.op("scale_bias", below, -1.0, -0.5)))
        mask = b.op("scale_bias", hidden, HIDDEN, 0.0)
        if not self._scoring.alibi:
            return mask
        slopes = self._scoring.slopes(self._n_heads).astype(np.float32)
        falling = b.input(("slopes", self._scoring.alibi, self._n_heads), F32,
                          (1, 1, self._n_heads), lambda batch: -slopes)
        distance = b.op("abs", b.op("sub", keys, part(3, (1, count))))
        bias = b.op("mul", b.op("repeat", distance, b.shape(n, count, self._n_heads)), falling)
        return b.op("add", bias, mask)


def _geometry(placed: PlacedKV | None) -> tuple[int, ...]:
    if placed is None:
        return ()
    layout = placed.layout
    return layout.first_column, layout.block_tokens, layout.n_blocks


def _cache_rows(placed: PlacedKV, batch: Batch, seq: npt.NDArray[Any] | int,
                index: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows of the cache [n_kv_heads, n] of the tokens at ``index`` [n] of ``seq``."""
    layout, n_heads = placed.layout, placed.spec.n_kv_heads
    block, slot = np.divmod(index.astype(np.int64), layout.block_tokens)
    blocks = batch.block_table[seq, layout.first_column + block].astype(np.int64)
    heads = np.arange(n_heads)[:, None]
    return np.asarray((blocks * n_heads + heads) * layout.block_tokens + slot)
