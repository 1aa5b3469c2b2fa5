"""Attention with a matrix of fixed size as its past: lightning attention, gated delta rule,
RWKV-6."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Recurrent, Weights
from unladen.types import Limits


class Shapes(NamedTuple):
    """Numbers and sizes of heads: ``n_heads`` value heads share ``n_k_heads`` key heads."""

    n_heads: int
    n_k_heads: int
    k_dim: int
    v_dim: int

    @classmethod
    def of(cls, node: Node) -> Shapes:
        """The shapes that inputs and attributes of ``node`` have."""
        n_heads, n_k_heads = node.int_attr("n_heads"), node.int_attr("n_k_heads")
        k, v = node.inputs[1].shape[-1], node.inputs[2].shape[-1]
        assert isinstance(k, int) and isinstance(v, int)
        assert k % n_k_heads == 0 and v % n_heads == 0 and n_heads % n_k_heads == 0, node
        return cls(n_heads, n_k_heads, k // n_k_heads, v // n_heads)


class LinearAttention(Recurrent):
    """``S = diag(exp(g)) S``, ``S += k (x) u``, ``y = scale * q S``, for each of H heads.

    u is v, or with attribute ``delta`` it is ``beta (v - k S)`` (gated delta rule, Yang et al.
    2024). Inputs: q and k f32 [T, n_k_heads * k_dim], v [T, H * v_dim]; then g [T, H], or [T, H *
    k_dim] with a number for each row of S; then, with ``delta``, beta [T, H]. Attribute ``decay``
    gives one g for each head instead of the input (lightning attention, Qin et al. 2024). Head h
    has the keys of head ``h * n_k_heads // H``, or with attribute ``tiled`` of head
    ``h % n_k_heads``. With weight ``first`` [H, k_dim] (RWKV-6, Peng et al. 2024)
    ``y = scale * q (S + (first k) (x) v)`` with S before the token. State: S [H, k_dim, v_dim].
    """

    name = "linear_attention"

    def infer(self, node: Node) -> Inferred:
        n, q, v = node.inputs[0].shape[0], node.inputs[0], node.inputs[2]
        s = Shapes.of(node)
        assert q.shape == node.inputs[1].shape
        rest = list(node.inputs[3:])
        if "decay" in node.attrs:
            decay = node.attrs["decay"]
            assert isinstance(decay, tuple) and len(decay) == s.n_heads
        else:
            assert rest.pop(0).shape in ((n, s.n_heads), (n, s.n_heads * s.k_dim))
        if node.attrs["delta"]:
            assert rest.pop(0).shape == (n, s.n_heads) and not node.weights
        assert not rest
        assert all(w.shape == (s.n_heads, s.k_dim) for w in node.weights.values())
        return [(v.shape, "f32")]

    def state_size(self, node: Node) -> int:
        s = Shapes.of(node)
        return s.n_heads * s.k_dim * s.v_dim

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        s, scale = _matrix(node, state), node.float_attr("scale")
        first, out = weights.get("first"), []
        for q, k, v, g, beta in _tokens(node, inputs):
            before = s
            s = np.exp(g)[..., None] * s
            u = v if beta is None else beta * (v - np.einsum("hk,hkv->hv", k, s))
            s = s + k[:, :, None] * u[:, None]
            seen = s if first is None else before + (first * k)[:, :, None] * v[:, None]
            out.append(scale * np.einsum("hk,hkv->hv", q, seen))
        return [np.stack(out).reshape(inputs[2].shape)], s.reshape(-1)

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """``off`` [H, v_dim] bounds the 2-norm of the error of each column of S.

        The delta rule's step multiplies a column by diag(exp g) (I - beta k k^T), so its 2-norm
        grows at most by ``grown``; a bound for each element would grow with every token. Each step
        adds the roundings of the exp, of the products, of k S (a sum of k_dim) and of the sum. They
        are doubled to cover products of small errors."""
        s, scale, first = _matrix(node, state), node.float_attr("scale"), weights.get("first")
        off, bounds = np.zeros((s.shape[0], s.shape[2])), []
        n = s.shape[1]
        for q, k, v, g, beta in _tokens(node, inputs):
            length = _norm(k)
            before, was_off = s, off
            s = np.exp(g)[..., None] * s
            new = 2 * EPS32 * (np.abs(g).max(axis=-1, keepdims=True) + 6) * _norm(s)
            grown, u = np.ones_like(length), v
            if beta is not None:
                own = np.einsum("hk,hkv->hv", k, s)
                grown = np.maximum(1, np.abs(1 - beta * length ** 2))
                u = beta * (v - own)
                sums = (n + 1) * np.einsum("hk,hkv->hv", np.abs(k), np.abs(s))
                new = new + 2 * EPS32 * length * np.abs(beta) * (sums + 3 * (np.abs(v)
                                                                             + np.abs(own)))
            off = grown * (np.exp(g).max(axis=-1, keepdims=True) * off + new)
            s = s + k[:, :, None] * u[:, None]
            off = off + 4 * EPS32 * (_norm(s) + length * np.abs(u))
            seen, seen_off = s, off
            if first is not None:
                seen, seen_off = np.abs(before), was_off
                seen = seen + np.abs(first * k)[:, :, None] * np.abs(v)[:, None]
            total = np.einsum("hk,hkv->hv", np.abs(q), np.abs(seen))
            bounds.append(abs(scale) * (_norm(q) * seen_off + (n + 5) * EPS32 * total))
        state_off = np.broadcast_to(off[:, None], s.shape)
        return [np.stack(bounds).reshape(inputs[2].shape)], state_off.reshape(-1)

    def flops(self, node: Node, limits: Limits) -> int:
        return (7 if node.attrs["delta"] else 5) * limits.n_tokens * self.state_size(node)

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        return (super().bytes_moved(node, limits, weight_bytes)
                + 8 * limits.n_seqs * self.state_size(node))


def _matrix(node: Node, state: Array) -> Array:
    s = Shapes.of(node)
    return state.reshape(s.n_heads, s.k_dim, s.v_dim)


def _norm(a: Array) -> Array:
    """2-norms along k: [H, k] to [H, 1], [H, k, v] to [H, v]."""
    return np.asarray(np.linalg.norm(a, axis=1, keepdims=a.ndim == 2))


def _tokens(node: Node, inputs: Sequence[Array]
            ) -> Iterator[tuple[Array, Array, Array, Array, Array | None]]:
    """For each token q and k [H, k_dim], v [H, v_dim], g [H, 1 or k_dim], beta [H, 1]."""
    shapes, rest, n = Shapes.of(node), list(inputs[3:]), len(inputs[0])
    heads = np.arange(shapes.n_heads)
    own = (heads % shapes.n_k_heads if node.attrs["tiled"]
           else heads * shapes.n_k_heads // shapes.n_heads)
    q, k = (x.reshape(n, shapes.n_k_heads, shapes.k_dim)[:, own] for x in inputs[:2])
    v = inputs[2].reshape(n, shapes.n_heads, shapes.v_dim)
    g = (np.tile(np.asarray(node.attrs["decay"], np.float64), (n, 1)) if "decay" in node.attrs
         else rest.pop(0)).reshape(n, shapes.n_heads, -1)
    beta = rest.pop(0)[:, :, None] if node.attrs["delta"] else None
    for t in range(n):
        yield q[t], k[t], v[t], g[t], None if beta is None else beta[t]
