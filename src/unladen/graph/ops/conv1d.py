"""Short causal convolution along the sequence, each channel by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.activation import ACTIVATIONS, activation_error, activation_slope
from unladen.graph.ops.base import EPS32, Array, Inferred, Recurrent, Weights
from unladen.types import Limits


class Conv1d(Recurrent):
    """``y[t, c] = act(b[c] + sum_j w[c, j] * x[t - K + 1 + j, c])``, with x = 0 before the
    sequence.

    x f32 [T, C]; weights ``w`` [C, K] with K > 1, optional ``b`` [C]; attribute ``act``. State: the
    last K - 1 rows of x, oldest first.
    """

    name = "conv1d"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        channels, size = node.weights["w"].shape
        assert x.shape[-1] == channels and size > 1 and node.attrs["act"] in ACTIVATIONS
        assert "b" not in node.weights or node.weights["b"].shape == (channels,)
        return [(x.shape, "f32")]

    def state_size(self, node: Node) -> int:
        channels, size = node.weights["w"].shape
        return channels * (size - 1)

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        (x,), w = inputs, weights["w"]
        before = np.concatenate([state.reshape(-1, len(w)), x])
        y = _sums(before, w) + weights.get("b", 0.0)
        return [ACTIVATIONS[str(node.attrs["act"])](y)], before[len(x):].reshape(-1)

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """Rounding errors of K products and K sums, and then of the activation function."""
        (x,), w, act = inputs, weights["w"], str(node.attrs["act"])
        before = np.concatenate([state.reshape(-1, len(w)), x])
        b = weights.get("b", np.zeros(1))
        y = _sums(before, w) + b
        off = (w.shape[1] + 2) * EPS32 * (_sums(np.abs(before), np.abs(w)) + np.abs(b))
        return [activation_slope(act, y, off) * off + activation_error(act, y)
                ], np.zeros_like(state)

    def flops(self, node: Node, limits: Limits) -> int:
        return 2 * limits.n_tokens * node.weights["w"].n_elements

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        return (super().bytes_moved(node, limits, weight_bytes)
                + 8 * limits.n_seqs * self.state_size(node))


def _sums(before: Array, w: Array) -> Array:
    n = len(before) - w.shape[1] + 1
    return np.asarray(sum(before[j:j + n] * w[:, j] for j in range(w.shape[1])))
