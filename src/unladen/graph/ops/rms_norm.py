"""Root-mean-square normalization (Zhang and Sennrich 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.graph.ops.norm_groups import columns_of, group_of, grouped
from unladen.types import Limits


class RmsNorm(Op):
    """``y = x / sqrt(mean(x^2) + eps) * w`` over each ``group`` of the last dimension.

    x f32 [T, n]. Attributes ``eps`` and ``group``, by default the size of w: so w [n] normalizes
    whole rows, and w [n / k] each of k heads. Optional w has one or several groups and is repeated
    where it is shorter than a row.
    """

    name = "rms_norm"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert group_of(node) and set(node.weights) <= {"w"}
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = grouped(node, inputs[0])
        mean = np.mean(x * x, axis=-1, keepdims=True)
        y = (x / np.sqrt(mean + node.float_attr("eps"))).reshape(inputs[0].shape)
        return [y * columns_of(ctx, "w", y.shape[-1], 1.0)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 4 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # The sum of n squares (all positive) has relative error n*u, its root half of it; then a
        # square root, a division and two products.
        n = group_of(node)
        return [(n / 2 + 6) * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
