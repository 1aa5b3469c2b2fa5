"""The place of the largest number of each row: with it a greedy choice needs no logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Argmax(Op):
    """The place of the largest number of each row of x f32 [S, n], the first one in a tie: i32 [S].

    It is -1 for a row that holds NaN, +inf or only -inf.
    """

    name = "argmax"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert x.dtype == "f32" and len(x.shape) == 2
        return [((x.shape[0],), "i32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = inputs[0]
        return [np.where(np.isfinite(x.max(axis=1)), x.argmax(axis=1), -1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros(len(inputs[0]))]
