"""The sum of two arrays: residual connections, position embeddings, token types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class Add(Op):
    """``y = a + b``: same shape, or one input f32 [T, n] and a weight b of n numbers."""

    name = "add"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        a = node.inputs[0]
        if node.weights:
            assert len(node.inputs) == 1 and node.weights["b"].n_elements == a.shape[-1], node.name
        else:
            assert a.shape == node.inputs[1].shape, node.inputs
        return [(a.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        b = ctx.weights["b"].ravel() if node.weights else inputs[1]
        return [inputs[0] + b]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
