"""Arrays side by side: the parts of a product that several devices computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Concat(Op):
    """``y[t] = x_0[t], x_1[t], ...``: f32 [T, n_i] each -> f32 [T, sum of n_i]."""

    name = "concat"

    def infer(self, node: Node) -> Inferred:
        first = node.inputs[0].shape
        assert all(len(x.shape) == 2 and x.shape[0] == first[0] for x in node.inputs), node.inputs
        n_cols = sum(n for x in node.inputs for n in x.shape[1:] if isinstance(n, int))
        return [((first[0], n_cols), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.concatenate(inputs, axis=1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(np.concatenate(inputs, axis=1))]
