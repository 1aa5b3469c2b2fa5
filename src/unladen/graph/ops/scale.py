"""Multiplication by a constant, and by or with a weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class Scale(Op):
    """``y = s * x``: x f32 [T, n], attribute ``s``. With a weight w of m numbers ``y = s * x * w``,
    or with attribute ``divide`` ``y = s * x / w``; each number is for n / m neighbouring
    columns."""

    name = "scale"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        n, w = node.inputs[0].shape[-1], node.weights.get("w")
        assert w is None or (isinstance(n, int) and n % w.n_elements == 0), (node.name, w)
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        y = inputs[0] * node.float_attr("s")
        if "w" in ctx.weights:
            w = np.repeat(ctx.weights["w"].ravel(), y.shape[-1] // ctx.weights["w"].size)
            y = y / w if node.attrs.get("divide") else y * w
        return [y]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # s and the product with it are rounded once each. A weight adds two roundings, since a
        # backend may divide by multiplying with a rounded inverse.
        return [(2 + 2 * len(ctx.weights)) * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
