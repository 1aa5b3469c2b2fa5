"""A matrix for each head: latent attention applies it to queries and to its results (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import SMALL, Array, Inferred, Op, RefContext, cut, narrowed
from unladen.graph.ops.linear import product_error
from unladen.types import Limits


class HeadLinear(Op):
    """``y[t, h] = w[h] x[t, h]``: x f32 [T, n_heads * (n_in + rest)], w [n_heads, n_out, n_in] ->
    f32 [T, n_heads * (n_out + rest)]. A head's last ``rest`` columns are copied (DeepSeek V2, 2024:
    the rotated part of a query).
    """

    name = "head_linear"
    is_row_wise = True
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        n_heads, n_out, n_in = node.weights["w"].shape
        width = head_width(node)
        assert isinstance(x.shape[-1], int) and x.shape[-1] == n_heads * width and width >= n_in
        return [((*x.shape[:-1], n_heads * (n_out + width - n_in)), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        w = ctx.weights["w"]
        x = inputs[0].reshape(len(inputs[0]), len(w), -1)
        n_in = w.shape[-1]
        y = np.einsum("hoi,thi->tho", w, x[..., :n_in])
        return [np.concatenate([y, x[..., n_in:]], axis=-1).reshape(len(x), -1)]

    def shrunk(self, node: Node) -> Node:
        rest = head_width(node) - node.weights["w"].shape[-1]
        w = cut(node.weights["w"], 3, 37, SMALL)
        x = narrowed(node.inputs[0], w.shape[0] * (w.shape[-1] + rest))
        return replace(node, weights={"w": w}, inputs=(x,))

    def flops(self, node: Node, limits: Limits) -> int:
        return 2 * limits.count(node.inputs[0].shape[:-1]) * node.weights["w"].n_elements

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        w = ctx.weights["w"]
        x = inputs[0].reshape(len(inputs[0]), len(w), -1)
        n_in = w.shape[-1]
        parts = []
        for h, matrix in enumerate(w):
            off = product_error(x[:, h, :n_in], matrix, ctx.act_block.get("w", 0))
            parts += [off, np.zeros_like(x[:, h, n_in:])]
        return [np.concatenate(parts, axis=-1)]


def head_width(node: Node) -> int:
    """How many columns each head of the input has."""
    n = node.inputs[0].shape[-1]
    assert isinstance(n, int)
    return n // node.weights["w"].shape[0]
