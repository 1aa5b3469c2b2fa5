"""Matrix products of one input with one or several weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import (
    EPS32,
    SMALL,
    Array,
    Inferred,
    Op,
    RefContext,
    cut,
    narrowed,
)
from unladen.graph.ops.gated import GatedUnit
from unladen.types import Limits


def n_weights(node: Node) -> int:
    """How many matrices share the input: roles "w0", "w1", ..."""
    return sum(role.startswith("w") for role in node.weights)


class Linear(Op):
    """``y_i = x @ w_i.T + b_i``: x f32 [T, n_in], w_i [n_out_i, n_in], optional b_i [n_out_i].

    Passes make two fused forms for the backends that list them. With attribute ``act``, two weights
    give one output ``act(y_0) * y_1``. With attribute ``residual``, the last input is added to the
    only output.
    """

    name = "linear"
    is_row_wise = True
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        x = node.inputs[0]
        shapes = [node.weights[f"w{i}"].shape for i in range(n_weights(node))]
        for i, shape in enumerate(shapes):
            assert shape[1] == x.shape[-1], (node.name, shape, x)
            bias = node.weights.get(f"b{i}")
            assert bias is None or bias.shape == shape[:1]
        if "act" in node.attrs:
            assert len(shapes) == 2 and shapes[0] == shapes[1]
            shapes = shapes[:1]
        if "residual" in node.attrs:
            assert node.inputs[1].shape == (*x.shape[:-1], shapes[0][0]) and len(shapes) == 1
        return [((*x.shape[:-1], shape[0]), "f32") for shape in shapes]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        x = inputs[0]
        outs = [x @ ctx.weights[f"w{i}"].T + ctx.weights.get(f"b{i}", 0.0)
                for i in range(n_weights(node))]
        if "act" in node.attrs:
            outs = [GatedUnit.of(node)(*outs)]
        return [outs[0] + inputs[1]] if "residual" in node.attrs else outs

    def shrunk(self, node: Node) -> Node:
        # Kernels take 4 to 32 rows at a time: 37 rows are a few full sets and a remainder. Matrices
        # of whole sets of 16 rows keep them, since devices may read these in tiles.
        most = 48 if all(w.shape[0] % 16 == 0 for w in node.weights.values()) else 37
        weights = {role: cut(w, most, SMALL) for role, w in node.weights.items()}
        n_out, n_in = weights["w0"].shape
        x, *residual = node.inputs
        return replace(node, weights=weights,
                       inputs=(narrowed(x, n_in), *(narrowed(r, n_out) for r in residual)))

    def flops(self, node: Node, limits: Limits) -> int:
        rows = limits.count(node.inputs[0].shape[:-1])
        return 2 * rows * sum(int(np.prod(w.shape)) for role, w in node.weights.items()
                              if role.startswith("w"))

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        bounds = [product_error(inputs[0], ctx.weights[f"w{i}"], ctx.act_block.get(f"w{i}", 0))
                  for i in range(n_weights(node))]
        bounds = [b + EPS32 * np.abs(ctx.weights.get(f"b{i}", np.zeros(1)))
                  for i, b in enumerate(bounds)]
        if "act" in node.attrs:
            gate, up = (inputs[0] @ ctx.weights[f"w{i}"].T + ctx.weights.get(f"b{i}", 0.0)
                        for i in range(2))
            bounds = [GatedUnit.of(node).error(gate, up, *bounds)]
        outs = self.reference(node, inputs, ctx)
        return [b + 2 * EPS32 * np.abs(y) for b, y in zip(bounds, outs, strict=True)]


def product_error(x: Array, w: Array, act_block: int) -> Array:
    """A bound of |float32 x @ w.T - exact| for any order of summation: (n + 2) u sum |x||w|.

    ``act_block`` > 0: activations are rounded to int8, and blocks of this many share a scale. With
    a step of max|block| / 127 each element is off by at most half a step. A kernel may choose
    another scale for the same integers only where the sum of squared errors gets smaller. So the
    2-norm of a block's error is at most sqrt(act_block) half steps, and its part of a product is
    off by at most this times the 2-norm of the block of w.
    """
    n = x.shape[-1]
    bound: Array = (n + 2) * EPS32 * (np.abs(x) @ np.abs(w).T)
    if act_block:
        blocks = np.abs(x).reshape(*x.shape[:-1], n // act_block, act_block)
        # 0.51, not 0.5: the quotient x / scale is rounded to float32 before it is rounded to an
        # integer, and where a weight is scale * q + min, each of the two products is rounded.
        off = blocks.max(axis=-1) / 127 * 0.51 * np.sqrt(act_block)
        lengths = np.sqrt((w.reshape(*w.shape[:-1], n // act_block, act_block)**2).sum(axis=-1))
        bound = bound + off @ lengths.T
    return bound
