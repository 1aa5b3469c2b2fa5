"""The sum of two arrays: residual connections, position embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext


class Add(Op):
    """``y = a + b``, same shape."""

    name = "add"

    def infer(self, node: Node) -> Inferred:
        a, b = node.inputs
        assert a.shape == b.shape, (a, b)
        return [(a.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [inputs[0] + inputs[1]]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [EPS32 * np.abs(inputs[0] + inputs[1])]
