"""A factor that grows with the position, for queries of long contexts (Llama 4, 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class PositionScale(Op):
    """``y[t] = 1 + scale * log(1 + (positions[t] + offset) // length)``: i32 [T] -> f32 [T, 1].

    Attributes ``scale``, ``length``, ``offset``.
    """

    name = "position_scale"

    def infer(self, node: Node) -> Inferred:
        (positions,) = node.inputs
        assert node.int_attr("length") >= 1 and node.int_attr("offset") >= 0
        return [((*positions.shape, 1), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        n = (inputs[0] + node.int_attr("offset")) // node.int_attr("length")
        return [(1 + node.float_attr("scale") * np.log1p(n))[:, None]]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # A logarithm with 4 ulp of error, the rounded scale, a product and a sum.
        return [8 * EPS32 * (1 + np.abs(self.reference(node, inputs, ctx)[0] - 1))]
