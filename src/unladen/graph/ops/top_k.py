"""The k largest numbers of each row: most sampler chains need no other logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class TopK(Op):
    """The ``k`` largest numbers of each row of x f32 [S, n] in falling order, the first place first
    in a tie: their places i32 [S, k] and the numbers f32 [S, k]. NaN counts as +inf and is returned
    as +inf."""

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
