"""Scales each head's vector to length 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class L2Norm(Op):
    """``y = x / sqrt(sum(x^2) + eps)`` for each head of ``head_dim`` columns of x f32 [T, n]."""

    name = "l2_norm"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert isinstance(x.shape[-1], int) and x.shape[-1] % node.int_attr("head_dim") == 0
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = inputs[0].reshape(-1, node.int_attr("head_dim"))
        total = np.sum(x * x, axis=1, keepdims=True)
        return [(x / np.sqrt(total + node.float_attr("eps"))).reshape(inputs[0].shape)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 4 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # As in rms_norm: the sum of n squares (all positive) has relative error n*u, its root half
        # of it; 8 u cover eps, the square root and the division.
        n = node.int_attr("head_dim")
        return [(n / 2 + 8) * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
