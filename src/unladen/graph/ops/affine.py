"""A factor and a summand for every column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class Affine(Op):
    """``y[t, c] = x[t, c] * w[c // r] + b[c // r]``: x f32 [T, n], optional weights ``w`` and ``b``
    [n / r], r columns sharing one number."""

    name = "affine"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        sizes = {w.n_elements for w in node.weights.values()}
        assert len(sizes) == 1 and set(node.weights) <= {"w", "b"}, node
        assert isinstance(x.shape[-1], int) and x.shape[-1] % sizes.pop() == 0, node
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [self._of(inputs[0], ctx.weights)]

    def _of(self, x: Array, weights: Mapping[str, Array]) -> Array:
        n = next(iter(weights.values())).size
        wide = x.reshape(len(x), n, -1)
        y = wide * weights["w"].reshape(-1, 1) if "w" in weights else wide
        y = y + weights["b"].reshape(-1, 1) if "b" in weights else y
        return np.asarray(y).reshape(x.shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [2 * EPS32 * self._of(np.abs(inputs[0]), {r: np.abs(w)
                                                         for r, w in ctx.weights.items()})]
