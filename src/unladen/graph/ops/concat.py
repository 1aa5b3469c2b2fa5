"""Puts arrays side by side: parts of a product that several devices computed, or parts of heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Concat(Op):
    """``y[t] = x_0[t], x_1[t], ...``: f32 [T, n_i] each -> f32 [T, sum of n_i].

    With attribute ``n_heads`` H the columns are in the order of heads: x_i has n_i / H columns for
    each, and a head's columns of all x stand together. The last ``n_shared`` inputs (by default 0)
    have the columns of one head, which are repeated for every head.
    """

    name = "concat"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        first, n_heads = node.inputs[0].shape, head_count(node)
        assert all(len(x.shape) == 2 and x.shape[0] == first[0] for x in node.inputs), node.inputs
        return [((first[0], n_heads * sum(n for n, _ in head_parts(node))), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        n_rows, n_heads = len(inputs[0]), head_count(node)
        parts = [np.broadcast_to(x.reshape(n_rows, -1, n), (n_rows, n_heads, n))
                 for x, (n, _) in zip(inputs, head_parts(node), strict=True)]
        return [np.concatenate(parts, axis=2).reshape(n_rows, -1)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(self.reference(node, inputs, ctx)[0])]


def head_count(node: Node) -> int:
    """``n_heads`` of a ``concat`` node, 1 by default."""
    return node.int_attr("n_heads") if "n_heads" in node.attrs else 1


def head_parts(node: Node) -> list[tuple[int, bool]]:
    """For each input the columns of a head, and whether all heads share the same columns."""
    n_own = len(node.inputs) - (node.int_attr("n_shared") if "n_shared" in node.attrs else 0)
    parts = []
    for i, x in enumerate(node.inputs):
        n, n_heads = x.shape[-1], head_count(node) if i < n_own else 1
        assert isinstance(n, int) and n % n_heads == 0, node
        parts.append((n // n_heads, i >= n_own))
    return parts
