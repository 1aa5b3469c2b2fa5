"""The k largest of each row: what most sampler chains need of the logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class TopK(Op):
    """The ``k`` largest of each row of x f32 [S, n] by falling size, the first of equals first:
    their places i32 [S, k] and themselves f32 [S, k]. NaN counts as +inf, and comes out as that."""

    name = "top_k"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        rows, n = x.shape
        k = node.int_attr("k")
        assert isinstance(n, int) and 0 < k <= n
        return [((rows, k), "i32"), ((rows, k), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = np.where(np.isnan(inputs[0]), np.inf, inputs[0])
        places = np.argsort(-x, axis=1, kind="stable")[:, :node.int_attr("k")]
        return [places, np.take_along_axis(x, places, axis=1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros((len(inputs[0]), node.int_attr("k")))] * 2
