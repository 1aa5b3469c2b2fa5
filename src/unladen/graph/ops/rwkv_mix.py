"""RWKV-7's state (Peng et al. 2025): a matrix from which a token may remove any direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Recurrent, Weights
from unladen.types import Limits


class RwkvMix(Recurrent):
    """``S = diag(exp(g)) S + b (x) (a S) + k (x) v``, ``y = r S``, for each of ``n_heads`` heads.

    Inputs r, g, k, v, a, b, all f32 [T, n_heads * D]. State: S [n_heads, D, D].
    """

    name = "rwkv_mix"

    def infer(self, node: Node) -> Inferred:
        r = node.inputs[0]
        assert len(node.inputs) == 6 and all(x.shape == r.shape for x in node.inputs)
        assert isinstance(r.shape[-1], int) and r.shape[-1] % node.int_attr("n_heads") == 0
        return [(r.shape, "f32")]

    def state_size(self, node: Node) -> int:
        size = node.inputs[0].shape[-1]
        assert isinstance(size, int)
        return size * (size // node.int_attr("n_heads"))

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        heads, out = _heads(node, inputs), []
        s = state.reshape(*heads[0].shape[1:], -1)
        for r, g, k, v, a, b in zip(*heads, strict=True):
            answer = np.einsum("hk,hkv->hv", a, s)
            s = (np.exp(g)[:, :, None] * s + b[:, :, None] * answer[:, None]
                 + k[:, :, None] * v[:, None])
            out.append(np.einsum("hk,hkv->hv", r, s))
        return [np.stack(out).reshape(inputs[0].shape)], s.reshape(-1)

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """As for linear attention: ``off`` bounds the 2-norms of the errors of columns. A step
        multiplies them at most by the 2-norm of the matrix diag(exp g) + b a^T."""
        heads, bounds = _heads(node, inputs), []
        n = heads[0].shape[-1]
        s = state.reshape(*heads[0].shape[1:], -1)
        off = np.zeros((s.shape[0], n))
        for r, g, k, v, a, b in zip(*heads, strict=True):
            w, answer = np.exp(g), np.einsum("hk,hkv->hv", a, s)
            step = w[:, :, None] * np.eye(n) + b[:, :, None] * a[:, None]
            lengths = [np.linalg.norm(x, axis=1, keepdims=True) for x in (b, k, r)]
            kept = np.linalg.norm(w[:, :, None] * s, axis=1)
            sums = np.einsum("hk,hkv->hv", np.abs(a), np.abs(s))
            off = np.linalg.norm(step, 2, axis=(1, 2))[:, None] * off + 2 * EPS32 * (
                (np.abs(g).max(axis=1, keepdims=True) + 8) * kept
                + lengths[0] * ((n + 1) * sums + 4 * np.abs(answer)) + 4 * lengths[1] * np.abs(v))
            s = (w[:, :, None] * s + b[:, :, None] * answer[:, None] + k[:, :, None] * v[:, None])
            total = np.einsum("hk,hkv->hv", np.abs(r), np.abs(s))
            bounds.append(lengths[2] * off + (n + 2) * EPS32 * total)
        state_off = np.broadcast_to(off[:, None], s.shape)
        return [np.stack(bounds).reshape(inputs[0].shape)], state_off.reshape(-1)

    def flops(self, node: Node, limits: Limits) -> int:
        return 9 * limits.n_tokens * self.state_size(node)

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        return (super().bytes_moved(node, limits, weight_bytes)
                + 8 * limits.n_seqs * self.state_size(node))


def _heads(node: Node, inputs: Sequence[Array]) -> list[Array]:
    """Each input as [T, n_heads, D]."""
    return [x.reshape(len(x), node.int_attr("n_heads"), -1) for x in inputs]
