"""Takes the same columns out of each group of columns, to divide a product of several matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Columns(Op):
    """Columns ``first .. first + count`` of each group of ``group`` columns: x f32 [T, n] ->
    f32 [T, n / group * count]. Without ``group`` a group is a whole row."""

    name = "columns"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        rows, n = node.inputs[0].shape
        group, first, count = column_attrs(node)
        assert isinstance(n, int) and n % group == 0 and 0 <= first <= first + count <= group
        return [((rows, n // group * count), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        group, first, count = column_attrs(node)
        rows, n = inputs[0].shape
        x = inputs[0].reshape(rows, n // group, group)
        return [x[..., first:first + count].reshape(rows, n // group * count)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(self.reference(node, inputs, ctx)[0])]


def column_attrs(node: Node) -> tuple[int, int, int]:
    """``group`` (the whole row by default), ``first`` and ``count`` of a ``columns`` node."""
    group = node.attrs.get("group", node.inputs[0].shape[-1])
    assert isinstance(group, int)
    return group, node.int_attr("first"), node.int_attr("count")
