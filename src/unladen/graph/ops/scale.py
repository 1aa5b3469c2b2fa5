"""Multiplication by a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class Scale(Op):
    """``y = s * x``; attribute ``s``."""

    name = "scale"

    def infer(self, node: Node) -> Inferred:
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [inputs[0] * node.float_attr("s")]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # s itself is rounded to float32 once, the product once more.
        return [2 * EPS32 * np.abs(inputs[0] * node.float_attr("s"))]
