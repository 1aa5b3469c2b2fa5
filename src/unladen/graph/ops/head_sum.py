"""The sum of each head's columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class HeadSum(Op):
    """Sums of ``head_dim`` columns each: f32 [T, n] -> f32 [T, n / head_dim]. Attribute
    ``head_dim``."""

    name = "head_sum"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        (x,), dim = node.inputs, node.int_attr("head_dim")
        assert isinstance(x.shape[-1], int) and x.shape[-1] % dim == 0
        return [((*x.shape[:-1], x.shape[-1] // dim), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [inputs[0].reshape(len(inputs[0]), -1, node.int_attr("head_dim")).sum(axis=-1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        (sizes,) = self.reference(node, [np.abs(inputs[0])], ctx)
        return [node.int_attr("head_dim") * EPS32 * sizes]
