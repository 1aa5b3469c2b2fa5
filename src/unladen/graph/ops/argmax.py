"""The largest of each row: what a greedy choice needs of the logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Argmax(Op):
    """Where each row of x f32 [S, n] is largest, the first place in a tie: i32 [S].

    -1 for a row that holds NaN or +inf, or nothing but -inf.
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
