"""Writes keys and values to the cache, and softmax attention over it (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unladen.graph.graph import Attr, KVSpec, Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext, cut, narrowed
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

    def cache_tokens(self, node: Node, limits: Limits) -> int:
        return limits.count(node.inputs[0].shape[:-1])

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return []


@dataclass(frozen=True, slots=True)
class Scoring:
    """The keys that a token sees, and how scores are changed before the softmax.

    Places p of tokens and keys are their :attr:`Batch.index`.

    * ``scale``: the factor of ``q k^T``.
    * ``causal``: a token sees keys up to its own. Otherwise it sees all keys of its sequence, which
      must be in the step as a whole.
    * ``spans``: with ``causal``, a token sees keys up to :attr:`Batch.sees_to`.
    * ``window`` w > 0 hides keys by ``window_kind``: ``"sliding"`` those at p - w and before,
      ``"chunked"`` those before the multiple of w at or below p, ``"symmetric"`` those more than
      w // 2 away on either side.
    * ``softcap`` c > 0: a score becomes c * tanh(score / c) (Gemma 2, 2024).
    * ``alibi`` b > 0: a score loses its head's slope times the distance to the key (Press et al.
      2021); the steepest slope of a power of two of n heads is 2 ** (-b / n).

    Weight ``sinks`` f32 [n_heads] is one more score for each head. It takes its share of the
    softmax and has no value (gpt-oss, 2025).
    """

    scale: float
    causal: bool = True
    spans: bool = False
    window: int = 0
    window_kind: str = "sliding"
    softcap: float = 0.0
    alibi: float = 0.0

    @classmethod
    def of(cls, node: Node) -> Scoring:
        """The scoring that the attributes of ``node`` describe."""
        given = {name: node.attrs[name] for name in cls.__slots__ if name in node.attrs}
        scoring = cls(**given)  # type: ignore[arg-type]
        assert scoring.window_kind in WINDOW_KINDS, node.name
        return scoring

    def attrs(self) -> dict[str, Attr]:
        """The attributes of a node with this scoring; defaults are left out."""
        return {f.name: getattr(self, f.name) for f in fields(self)
                if getattr(self, f.name) != f.default}

    @property
    def is_plain(self) -> bool:
        """Whether this is a scaled causal softmax and nothing else."""
        return self == Scoring(self.scale)

    def sees(self, index: Array, n_keys: int, sees_to: Array | None = None) -> Array:
        """Whether each token at ``index`` i32 [T] sees each key: bool [T, n_keys]. ``sees_to``
        i32 [T] is read only with :attr:`spans`."""
        keys, own = np.arange(n_keys)[None, :], index[:, None]
        last = own
        if self.spans:
            assert sees_to is not None
            last = sees_to[:, None]
        seen = keys <= last if self.causal else np.ones((len(own), n_keys), bool)
        if self.window:
            seen = seen & WINDOW_KINDS[self.window_kind](keys, own, self.window)
        return np.asarray(seen)

    def slopes(self, n_heads: int) -> Array:
        """ALiBi's slopes, float64 [n_heads]: powers of 2 ** (-alibi / n) for the first n heads, n
        the largest power of two; then the odd powers of its square root for the other heads."""
        n = 1 << (n_heads.bit_length() - 1)
        first = 2.0 ** (-self.alibi * np.arange(1, n + 1) / n)
        rest = 2.0 ** (-self.alibi / 2 * np.arange(1, 2 * (n_heads - n), 2) / n)
        return np.concatenate([first, rest])


WINDOW_KINDS: Mapping[str, Callable[[Array, Array, int], Array]] = MappingProxyType({
    "sliding": lambda key, own, w: key > own - w,
    "chunked": lambda key, own, w: key >= own // w * w,
    "symmetric": lambda key, own, w: np.abs(key - own) <= w // 2})
"""By name, a function of (key, own, w): whether a token at ``own`` sees ``key`` through a window of
w tokens."""


class Attention(Op):
    """``softmax(scale * q k^T) v`` per head, over the keys that :class:`Scoring` shows a token.

    q f32 [T, n_heads * k_dim] -> f32 [T, n_heads * v_dim]. Attributes ``n_heads`` and those of
    :class:`Scoring`. Query head h reads key/value head h // (n_heads / n_kv_heads) (grouped
    queries, Ainslie 2023).
    """

    name = "attention"

    def shrunk(self, node: Node) -> Node:
        spec = _two_heads(_spec(node))
        n_heads = node.int_attr("n_heads") // _spec(node).n_kv_heads * spec.n_kv_heads
        return replace(node, state=spec, attrs={**node.attrs, "n_heads": n_heads},
                       weights={role: cut(w, n_heads) for role, w in node.weights.items()},
                       inputs=(narrowed(node.inputs[0], n_heads * spec.k_dim),))

    def infer(self, node: Node) -> Inferred:
        (q,) = node.inputs
        spec, n_heads = _spec(node), node.int_attr("n_heads")
        assert q.shape[-1] == n_heads * spec.k_dim and n_heads % spec.n_kv_heads == 0
        assert all(role == "sinks" and w.shape == (n_heads,) for role, w in node.weights.items())
        return [((*q.shape[:-1], n_heads * spec.v_dim), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [self._over_sequences(node, inputs, ctx, _attend)]

    def _over_sequences(self, node: Node, inputs: Sequence[Array], ctx: RefContext,
                        attend: Callable[[Array, Array, Array, Masked], Array]) -> Array:
        assert ctx.state is not None
        (x,) = inputs
        spec, n_heads, batch = _spec(node), node.int_attr("n_heads"), ctx.batch
        scoring, group = Scoring.of(node), n_heads // spec.n_kv_heads
        q = x.reshape(len(x), n_heads, spec.k_dim)
        out = np.zeros((len(x), n_heads, spec.v_dim))
        for seq in range(batch.n_seqs):
            rows = slice(batch.q_start[seq], batch.q_start[seq + 1])
            k, v = (np.repeat(a, group, axis=1) for a in ctx.state.load(batch, seq))
            index = batch.index[rows]
            seen = scoring.sees(index, len(k), batch.sees_to[rows])
            bias = np.where(seen, 0.0, -np.inf)[None]
            if scoring.alibi:
                distance = np.abs(np.arange(len(k))[None] - index[:, None])
                bias = bias - scoring.slopes(n_heads)[:, None, None] * distance
            masked = Masked(scoring.scale, scoring.softcap, bias, ctx.weights.get("sinks"))
            out[rows] = attend(q[rows], k, v, masked)
        return out.reshape(len(x), -1)

    def flops(self, node: Node, limits: Limits) -> int:
        spec = _spec(node)
        rows = limits.count(node.inputs[0].shape[:-1])
        return 2 * rows * limits.n_keys * node.int_attr("n_heads") * (spec.k_dim + spec.v_dim)

    def cache_tokens(self, node: Node, limits: Limits) -> int:
        return limits.n_seqs * limits.n_keys

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [self._over_sequences(node, inputs, ctx, _attend_error)]


class Masked(NamedTuple):
    """How the scores of one sequence are made: ``bias`` [1 or n_heads, T, n_keys] is added, -inf
    for a key that a token doesn't see; the other fields are those of :class:`Scoring`."""

    scale: float
    softcap: float
    bias: Array
    sinks: Array | None

    def scores(self, q: Array, k: Array) -> Array:
        """Scores [n_heads, T, n_keys] for q [T, n_heads, d] and k [n_keys, n_heads, d]."""
        scores: Array = np.einsum("thd,khd->htk", q, k) * self.scale
        if self.softcap:
            scores = self.softcap * np.tanh(scores / self.softcap)
        return np.asarray(scores + self.bias)


def _attend(q: Array, k: Array, v: Array, masked: Masked) -> Array:
    scores = masked.scores(q, k)
    top = scores.max(axis=-1, keepdims=True)
    sinks = None if masked.sinks is None else masked.sinks[:, None, None]
    if sinks is not None:
        top = np.maximum(top, sinks)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True) + (0 if sinks is None else np.exp(sinks - top))
    return np.asarray(np.einsum("htk,khd->thd", weights / total, v))


def _attend_error(q: Array, k: Array, v: Array, masked: Masked) -> Array:
    """A bound of the output's error.

    A score is off by (d + 3) u sum |q||k|. A weight's relative error is twice the largest of these,
    since it is divided by a sum of weights. The sums over n keys, an exp with 4 ulp of error and
    the rounding of its argument are added. A cap shrinks errors and adds 8 ulp of its result; a
    slope adds 2 ulp of its product with the distance.
    """
    magnitude = np.einsum("thd,khd->htk", np.abs(q), np.abs(k)) * abs(masked.scale)
    parts = np.abs(masked.scores(q, k)), np.broadcast_to(np.abs(masked.bias), magnitude.shape)
    spread = sum(np.where(np.isfinite(a), a, 0).max(axis=-1) for a in parts)
    ulps = 10 if masked.softcap else 2
    score_error = (q.shape[-1] + 3) * EPS32 * magnitude.max(axis=-1) + ulps * EPS32 * spread
    relative = 2 * score_error + (2 * len(k) + 16) * EPS32
    out = np.einsum("thd->htd", _attend(q, k, np.abs(v), masked))
    return np.asarray(np.einsum("htd->thd", out * relative[..., None]))
