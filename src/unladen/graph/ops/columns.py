"""Some columns of every head."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Columns(Op):
    """Of f32 [T, G * ``group``] the columns ``first .. first + width`` of each group: [T, G * width].
    """

    name = "columns"

    def infer(self, node: Node) -> Inferred:
        (x,), (first, width, group) = node.inputs, sizes(node)
        assert isinstance(x.shape[-1], int) and x.shape[-1] % group == 0
        assert 0 <= first < first + width <= group
        return [((*x.shape[:-1], x.shape[-1] // group * width), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        (x,), (first, width, group) = inputs, sizes(node)
        return [x.reshape(len(x), -1, group)[:, :, first:first + width].reshape(len(x), -1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [0 * self.reference(node, inputs, ctx)[0]]


def sizes(node: Node) -> tuple[int, int, int]:
    """Attributes ``first``, ``width`` and ``group``."""
    return node.int_attr("first"), node.int_attr("width"), node.int_attr("group")
