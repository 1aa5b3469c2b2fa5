"""Replaces some tokens' embeddings by rows that the caller brings, as for pictures and sounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext
from unladen.types import NO_ROW


class InsertRows(Op):
    """``y[t] = rows[row_of[t]]``, or ``x[t]`` where ``row_of[t]`` is
    :data:`~unladen.types.NO_ROW`: x f32 [T, n], row_of i32 [T], rows f32 [R, n] -> f32 [T, n].
    """

    name = "insert_rows"

    def infer(self, node: Node) -> Inferred:
        x, row_of, rows = node.inputs
        assert row_of.dtype == "i32" and row_of.shape == x.shape[:1] and rows.dtype == "f32"
        assert rows.shape[1:] == x.shape[1:], (x, rows)
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x, row_of, rows = inputs
        y = np.array(x)
        brought = row_of != NO_ROW
        y[brought] = rows[row_of[brought]]
        return [y]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(inputs[0])]
