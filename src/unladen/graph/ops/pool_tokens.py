"""One row for each group of tokens: their mean, weighted by scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Recurrent, Weights
from unladen.types import Limits


class PoolTokens(Recurrent):
    """Pools each group of ``ratio`` = R tokens into one row, at its last token (DeepSeek V4, 2026).

    Inputs x and scores, both f32 [T, C * D], and positions i32 [T] -> f32 [T, D]. Row r of weight
    ``place`` [R, C * D] is added to the scores of the token at place r of its group. At the last
    position of a group ``y[d] = sum_i softmax_i(scores[i, d]) x[i, d]`` over the group's tokens;
    at other positions y = 0. If C = 2 the sum also has the tokens of the group before, if there is
    one: their first D columns, and the last D columns of the group's own tokens. State: the rows of
    x and those of scores of the last C * R tokens, each [C * R, C * D], a token's at its position
    modulo C * R.
    """

    name = "pool_tokens"

    def infer(self, node: Node) -> Inferred:
        x, scores, positions = node.inputs
        ratio, n_groups, width = pool_sizes(node)
        assert x.shape == scores.shape and positions.dtype == "i32" and n_groups in (1, 2)
        assert node.weights["place"].shape == (ratio, n_groups * width)
        return [((x.shape[0], width), "f32")]

    def state_size(self, node: Node) -> int:
        ratio, n_groups, width = pool_sizes(node)
        return 2 * n_groups * ratio * n_groups * width

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        y, _, after = self._scan(node, inputs, weights, state)
        return [y], after

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        return [self._scan(node, inputs, weights, state)[1]], np.zeros_like(state)

    def _scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
              ) -> tuple[Array, Array, Array]:
        """y, the bound of its error, and the new state.

        A weight's relative error is twice the largest error of an exponent (a rounded sum and its
        rounded difference to the largest score) and 4 ulp of exp. Sums of n add to this."""
        ratio, n_groups, width = pool_sizes(node)
        size = n_groups * ratio
        kept, place = state.reshape(2, size, n_groups * width).copy(), weights["place"]
        y, bound = np.zeros((2, len(inputs[0]), width))
        for t, (x, scores, position) in enumerate(zip(*inputs, strict=True)):
            p = int(position)
            kept[:, p % size] = x, scores
            if (p + 1) % ratio:
                continue
            tokens = np.arange(max(0, p + 1 - size), p + 1)
            columns = ((tokens - p - 1) // ratio + n_groups)[:, None] * width + np.arange(width)
            values, s = kept[:, tokens[:, None] % size, columns]
            added = place[tokens[:, None] % ratio, columns]
            w = np.exp(s + added - (s + added).max(axis=0))
            y[t] = (w * values).sum(axis=0) / w.sum(axis=0)
            off = EPS32 * (2 * (np.abs(s) + np.abs(added)).max(axis=0) + np.ptp(s + added, axis=0))
            bound[t] = (2 * off + (2 * len(tokens) + 16) * EPS32) * (
                (w * np.abs(values)).sum(axis=0) / w.sum(axis=0))
        return y, bound, kept.reshape(-1)

    def flops(self, node: Node, limits: Limits) -> int:
        _, n_groups, width = pool_sizes(node)
        return 8 * limits.n_tokens * n_groups * width

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        return (super().bytes_moved(node, limits, weight_bytes)
                + 8 * limits.n_seqs * self.state_size(node))


def pool_sizes(node: Node) -> tuple[int, int, int]:
    """R, C and D of a ``pool_tokens`` node, as :class:`PoolTokens` names them."""
    ratio, n_groups = node.int_attr("ratio"), node.int_attr("n_groups")
    n_cols = node.inputs[0].shape[-1]
    assert isinstance(n_cols, int) and n_cols % n_groups == 0, node
    return ratio, n_groups, n_cols // n_groups
