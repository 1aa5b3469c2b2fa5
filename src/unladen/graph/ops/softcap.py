"""Limits logits smoothly (Gemma 2, 2024)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class Softcap(Op):
    """``y = cap * tanh(x / cap)``; attribute ``cap`` > 0."""

    name = "softcap"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        assert node.float_attr("cap") > 0
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        cap = node.float_attr("cap")
        return [cap * np.tanh(inputs[0] / cap)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 16 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # tanh doesn't increase the relative error of its argument, and adds 8 ulp.
        return [12 * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
