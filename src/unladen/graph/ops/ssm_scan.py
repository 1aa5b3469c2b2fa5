"""Selective state spaces: Mamba (Gu and Dao 2023) and Mamba 2 (Dao and Gu 2024)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Recurrent, Weights
from unladen.types import Limits


class SsmScan(Recurrent):
    """``S = exp(dt a) S + dt x B``, ``y = S C + d x``, for each of H heads of P channels.

    x f32 [T, H * P], dt [T, H], B and C [T, n_groups * N]; H / n_groups heads share a group.
    Weights ``a`` [H, N], or [H, 1] with one number per head, and ``d`` [H]. Attribute ``n_groups``.
    State: S [H, P, N]. Mamba 1 has P = 1.
    """

    name = "ssm_scan"

    def infer(self, node: Node) -> Inferred:
        x = node.inputs[0]
        n_heads, n_channels, n_state = sizes(node)
        n_groups = node.int_attr("n_groups")
        assert x.shape[-1] == n_heads * n_channels and n_heads % n_groups == 0
        assert node.inputs[2].shape == node.inputs[3].shape == (x.shape[0], n_groups * n_state)
        assert node.weights["a"].shape in ((n_heads, n_state), (n_heads, 1))
        assert node.weights["d"].n_elements == n_heads
        return [(x.shape, "f32")]

    def state_size(self, node: Node) -> int:
        n_heads, n_channels, n_state = sizes(node)
        return n_heads * n_channels * n_state

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        n_heads, n_channels, n_state = sizes(node)
        s = state.reshape(n_heads, n_channels, n_state)
        y = np.zeros((len(inputs[0]), n_heads, n_channels))
        for t, (x, dt, b, c) in enumerate(_tokens(node, inputs)):
            s = np.exp(dt * weights["a"])[:, None] * s + _outer(dt, x, b)
            y[t] = np.einsum("hpn,hn->hp", s, c) + weights["d"].reshape(-1, 1) * x
        return [y.reshape(inputs[0].shape)], s.reshape(-1)

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """Each step adds the roundings of an exp and its argument, of the product with S, of the
        product that is added, and of the sum. Errors of earlier steps shrink as the state does. An
        output adds N products and sums."""
        n_heads, n_channels, n_state = sizes(node)
        s = state.reshape(n_heads, n_channels, n_state)
        off, bounds = np.zeros_like(s), []
        for x, dt, b, c in _tokens(node, inputs):
            power = (dt * weights["a"])[:, None]
            kept, added = np.exp(power) * s, _outer(dt, x, b)
            s = kept + added
            off = np.exp(power) * off + EPS32 * ((np.abs(power) + 6) * np.abs(kept)
                                                 + 4 * np.abs(added) + np.abs(s))
            total = np.einsum("hpn,hn->hp", off + (n_state + 2) * EPS32 * np.abs(s), np.abs(c))
            bounds.append(total + 4 * EPS32 * np.abs(weights["d"].reshape(-1, 1) * x))
        return [np.stack(bounds).reshape(inputs[0].shape)], off.reshape(-1)

    def flops(self, node: Node, limits: Limits) -> int:
        return 7 * limits.n_tokens * self.state_size(node)

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        return (super().bytes_moved(node, limits, weight_bytes)
                + 8 * limits.n_seqs * self.state_size(node))


def sizes(node: Node) -> tuple[int, int, int]:
    """The numbers of heads, of channels in a head, and of states in a channel: H, P, N."""
    x, dt, b, _ = (v.shape[-1] for v in node.inputs)
    assert isinstance(x, int) and isinstance(dt, int) and isinstance(b, int)
    return dt, x // dt, b // node.int_attr("n_groups")


def _tokens(node: Node, inputs: Sequence[Array]) -> list[tuple[Array, Array, Array, Array]]:
    """For each token x [H, P], dt [H, 1], B and C [H, N]."""
    n_heads, n_channels, n_state = sizes(node)
    n_groups = node.int_attr("n_groups")
    x, dt = inputs[0].reshape(-1, n_heads, n_channels), inputs[1][:, :, None]
    b, c = (np.repeat(v.reshape(-1, n_groups, n_state), n_heads // n_groups, axis=1)
            for v in inputs[2:])
    return list(zip(x, dt, b, c, strict=True))


def _outer(dt: Array, x: Array, b: Array) -> Array:
    return np.asarray(dt[:, :, None] * x[:, :, None] * b[:, None])
