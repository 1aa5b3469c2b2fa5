"""Layer normalization (Ba, Kiros and Hinton 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class LayerNorm(Op):
    """``y = (x - mean) / sqrt(var + eps) * w + b``: x f32 [T, n], w and optional b [n]."""

    name = "layer_norm"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert all(w.shape == x.shape[-1:] for w in node.weights.values())
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = inputs[0] - inputs[0].mean(axis=-1, keepdims=True)
        var = np.mean(x * x, axis=-1, keepdims=True)
        y = x / np.sqrt(var + node.float_attr("eps")) * ctx.weights["w"]
        return [y + ctx.weights["b"] if "b" in ctx.weights else y]

    def flops(self, node: Node, limits: Limits) -> int:
        return 7 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # The mean carries n*u of the mean magnitude, which every centred element inherits; the
        # variance then has relative error (n + 2*shift)*u, and its root half of it.
        x = inputs[0]
        n = x.shape[-1]
        w = ctx.weights["w"]
        std = np.sqrt(x.var(axis=-1, keepdims=True) + node.float_attr("eps"))
        shift = (n + 2) * EPS32 * np.abs(x).mean(axis=-1, keepdims=True)
        centred = np.abs(x - x.mean(axis=-1, keepdims=True))
        scaled = (shift + centred * ((n + 8) * EPS32 + shift / std)) / std * np.abs(w)
        return [scaled + EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
