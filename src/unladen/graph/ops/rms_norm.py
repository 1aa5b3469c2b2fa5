"""Root-mean-square normalization (Zhang and Sennrich 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class RmsNorm(Op):
    """``y = x / sqrt(mean(x^2) + eps) * w`` over groups of ``len(w)`` of the last dimension.

    x f32 [T, n]; w [n] normalizes whole rows, w [n / k] each of k heads by itself.
    Attribute ``eps``.
    """

    name = "rms_norm"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        (size,) = node.weights["w"].shape
        assert isinstance(x.shape[-1], int) and x.shape[-1] % size == 0, (x, size)
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        w = ctx.weights["w"]
        x = inputs[0].reshape(-1, len(w))
        mean = np.mean(x * x, axis=1, keepdims=True)
        y = x / np.sqrt(mean + node.float_attr("eps")) * w
        return [y.reshape(inputs[0].shape)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 4 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # The sum of n squares (all positive) has relative error n*u, its root half of it; then a
        # square root, a division and two products.
        n = len(ctx.weights["w"])
        return [(n / 2 + 6) * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
