"""Keeps the rows whose logits are wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class SelectRows(Op):
    """``y[s] = x[rows[s]]``: x f32 [T, n], rows i32 [S] -> f32 [S, n]."""

    name = "select_rows"

    def infer(self, node: Node) -> Inferred:
        x, rows = node.inputs
        assert rows.dtype == "i32"
        return [((*rows.shape, *x.shape[1:]), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [inputs[0][inputs[1]]]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(inputs[0][inputs[1]])]
