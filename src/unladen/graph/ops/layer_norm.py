"""Layer normalization (Ba, Kiros and Hinton 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.graph.ops.norm_groups import columns_of, group_of, grouped
from unladen.types import Limits


class LayerNorm(Op):
    """``y = (x - mean) / sqrt(var + eps) * w + b`` over each ``group`` of the last dimension.

    x f32 [T, n]. Attributes ``eps`` and, optional, ``group``; optional w and b. All as in
    :class:`~unladen.graph.ops.rms_norm.RmsNorm`.
    """

    name = "layer_norm"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert group_of(node) and set(node.weights) <= {"w", "b"}
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = grouped(node, inputs[0])
        x = x - x.mean(axis=-1, keepdims=True)
        var = np.mean(x * x, axis=-1, keepdims=True)
        y = (x / np.sqrt(var + node.float_attr("eps"))).reshape(inputs[0].shape)
        n = y.shape[-1]
        return [y * columns_of(ctx, "w", n, 1.0) + columns_of(ctx, "b", n, 0.0)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 7 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # The mean is off by n*u times the mean magnitude, and so is each centred element. The
        # variance then has relative error (n + 2*shift)*u, and its root half of it.
        x = grouped(node, inputs[0])
        n = x.shape[-1]
        std = np.sqrt(x.var(axis=-1, keepdims=True) + node.float_attr("eps"))
        shift = (n + 2) * EPS32 * np.abs(x).mean(axis=-1, keepdims=True)
        centred = np.abs(x - x.mean(axis=-1, keepdims=True))
        off = (shift + centred * ((n + 8) * EPS32 + shift / std)) / std
        w = np.abs(columns_of(ctx, "w", inputs[0].shape[-1], 1.0))
        return [off.reshape(inputs[0].shape) * w
                + EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
