"""Keys and values into the cache, and softmax attention over it (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import KVSpec, Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext, narrowed
from unladen.types import Limits


def _spec(node: Node) -> KVSpec:
    assert node.state is not None
    return node.state


def _two_heads(spec: KVSpec) -> KVSpec:
    return replace(spec, n_kv_heads=min(2, spec.n_kv_heads))


class KVWrite(Op):
    """Stores k f32 [T, n_kv_heads * k_dim] and v f32 [T, n_kv_heads * v_dim] in the layer's cache.

    No output: the ``attention`` of the same layer, later in the graph, reads the cache.
    """

    name = "kv_write"

    def shrunk(self, node: Node) -> Node:
        spec = _two_heads(_spec(node))
        k, v = node.inputs
        return replace(node, state=spec, inputs=(narrowed(k, spec.n_kv_heads * spec.k_dim),
                                                 narrowed(v, spec.n_kv_heads * spec.v_dim)))

    def infer(self, node: Node) -> Inferred:
        k, v = node.inputs
        spec = _spec(node)
        assert k.shape[-1] == spec.n_kv_heads * spec.k_dim, (k, spec)
        assert v.shape[-1] == spec.n_kv_heads * spec.v_dim, (v, spec)
        return []

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        assert ctx.state is not None
        spec, n = _spec(node), len(inputs[0])
        ctx.state.store(ctx.batch, inputs[0].reshape(n, spec.n_kv_heads, spec.k_dim),
                        inputs[1].reshape(n, spec.n_kv_heads, spec.v_dim))
        return []

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return []


class Attention(Op):
    """``softmax(scale * q k^T) v`` per head; token t sees its sequence's keys up to its position.

    q f32 [T, n_heads * k_dim] -> f32 [T, n_heads * v_dim]. Attributes ``n_heads``, ``scale``.
    Query head h reads key/value head h // (n_heads / n_kv_heads) (grouped queries, Ainslie 2023).
    """

    name = "attention"

    def shrunk(self, node: Node) -> Node:
        spec = _two_heads(_spec(node))
        n_heads = node.int_attr("n_heads") // _spec(node).n_kv_heads * spec.n_kv_heads
        return replace(node, state=spec, attrs={**node.attrs, "n_heads": n_heads},
                       inputs=(narrowed(node.inputs[0], n_heads * spec.k_dim),))

    def infer(self, node: Node) -> Inferred:
        (q,) = node.inputs
        spec, n_heads = _spec(node), node.int_attr("n_heads")
        assert q.shape[-1] == n_heads * spec.k_dim and n_heads % spec.n_kv_heads == 0
        return [((*q.shape[:-1], n_heads * spec.v_dim), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [self._over_sequences(node, inputs[0], ctx, _attend)]

    def _over_sequences(self, node: Node, x: Array, ctx: RefContext,
                        attend: Callable[[Array, Array, Array, Array, float], Array]) -> Array:
        assert ctx.state is not None
        spec, n_heads, batch = _spec(node), node.int_attr("n_heads"), ctx.batch
        q = x.reshape(len(x), n_heads, spec.k_dim)
        out = np.zeros((len(x), n_heads, spec.v_dim))
        for seq in range(batch.n_seqs):
            rows = slice(batch.q_start[seq], batch.q_start[seq + 1])
            k, v = ctx.state.load(batch, seq)
            group = n_heads // spec.n_kv_heads
            k, v = (np.repeat(a, group, axis=1) for a in (k, v))
            out[rows] = attend(q[rows], k, v, batch.positions[rows], node.float_attr("scale"))
        return out.reshape(len(x), -1)

    def flops(self, node: Node, limits: Limits) -> int:
        spec = _spec(node)
        keys = limits.n_blocks_per_seq
        return (2 * limits.count(node.inputs[0].shape[:-1]) * keys * node.int_attr("n_heads")
                * (spec.k_dim + spec.v_dim))

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [self._over_sequences(node, inputs[0], ctx, _attend_error)]


def _scores(q: Array, k: Array, positions: Array, scale: float) -> Array:
    scores: Array = np.einsum("thd,khd->htk", q, k) * scale
    scores[:, np.arange(len(k))[None, :] > positions[:, None]] = -np.inf
    return scores


def _attend(q: Array, k: Array, v: Array, positions: Array, scale: float) -> Array:
    scores = _scores(q, k, positions, scale)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("htk,khd->thd", weights, v))


def _attend_error(q: Array, k: Array, v: Array, positions: Array, scale: float) -> Array:
    """Scores are off by (d + 3) u sum |q||k|, so each weight by twice the largest of these (it and
    the sum that it is divided by); then sums over n keys, an exp of 4 ulp and its argument."""
    magnitude = np.einsum("thd,khd->htk", np.abs(q), np.abs(k)) * abs(scale)
    top = np.abs(_scores(q, k, positions, scale))
    spread = np.where(np.isfinite(top), top, 0).max(axis=-1)
    score_error = (q.shape[-1] + 3) * EPS32 * magnitude.max(axis=-1) + 2 * EPS32 * spread
    relative = 2 * score_error + (2 * len(k) + 16) * EPS32
    out = np.einsum("thd->htd", _attend(q, k, np.abs(v), positions, scale))
    return np.asarray(np.einsum("htd->thd", out * relative[..., None]))
