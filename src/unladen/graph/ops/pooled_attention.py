"""Attention to the last tokens and to pooled rows, one for each group of earlier tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.attention import Attention, Masked, Scoring
from unladen.graph.ops.base import Array, Inferred, RefContext
from unladen.types import Limits


class PooledAttention(Attention):
    """One softmax over two kinds of rows of a cache with one head. Each row is both key and value
    (DeepSeek V4, 2026).

    q f32 [T, n_heads * d] -> f32 [T, n_heads * d]. A token at position p sees rows of the cache's K
    for the last ``window`` tokens up to p, and the first d columns of the cache's V at the last
    token of each group of ``ratio`` tokens up to p. A second input i32 [T, n] restricts the groups
    to those with these positions of their last tokens; -1 names no group. Attributes ``n_heads``,
    ``scale``, ``window``, ``ratio``; weight ``sinks`` as in
    :class:`~unladen.graph.ops.attention.Scoring`.
    """

    name = "pooled_attention"

    def shrunk(self, node: Node) -> Node:
        return node

    def infer(self, node: Node) -> Inferred:
        spec, n_heads = node.state, node.int_attr("n_heads")
        assert spec is not None and spec.n_kv_heads == 1 and spec.v_dim >= spec.k_dim
        assert node.inputs[0].shape[-1] == n_heads * spec.k_dim and node.int_attr("window") > 0
        assert all(role == "sinks" and w.shape == (n_heads,) for role, w in node.weights.items())
        return [(node.inputs[0].shape, "f32")]

    def _over_sequences(self, node: Node, inputs: Sequence[Array], ctx: RefContext,
                        attend: Callable[[Array, Array, Array, Masked], Array]) -> Array:
        assert ctx.state is not None
        d, ratio, batch = ctx.state.spec.k_dim, node.int_attr("ratio"), ctx.batch
        scoring = Scoring(node.float_attr("scale"), window=node.int_attr("window"))
        q = inputs[0].reshape(len(inputs[0]), -1, d)
        out = np.zeros(q.shape)
        for seq in range(batch.n_seqs):
            rows = slice(batch.q_start[seq], batch.q_start[seq + 1])
            k, v = (a[:, 0] for a in ctx.state.load(batch, seq))
            own, last = batch.index[rows], np.arange(ratio - 1, len(k), ratio)
            seen = last <= own[:, None]
            if len(inputs) > 1:
                seen &= (inputs[1][rows][:, :, None] == last).any(axis=1)
            bias = np.where(np.hstack([scoring.sees(own, len(k)), seen]), 0.0, -np.inf)[None]
            both = np.broadcast_to(np.vstack([k, v[last, :d]])[:, None],
                                   (len(k) + len(last), q.shape[1], d))
            out[rows] = attend(q[rows], both, both,
                               Masked(scoring.scale, 0.0, bias, ctx.weights.get("sinks")))
        return out.reshape(len(q), -1)

    def flops(self, node: Node, limits: Limits) -> int:
        n_keys = (min(limits.n_keys, node.int_attr("window"))
                  + limits.n_keys // node.int_attr("ratio"))
        return 4 * n_keys * limits.count(node.inputs[0].shape)
