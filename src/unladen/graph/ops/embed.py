"""Rows of a table, chosen by index: token and position embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node, Weight
from unladen.graph.ops.base import SMALL, Array, Inferred, Op, RefContext, cut
from unladen.types import Limits


class Embed(Op):
    """``y[t] = w[ids[t]]``: ids i32 [T], w [n, n_embd] -> f32 [T, n_embd]."""

    name = "embed"
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        (ids,) = node.inputs
        assert ids.dtype == "i32"
        return [((*ids.shape, node.weights["w"].shape[1]), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [ctx.weights["w"][inputs[0]]]

    def shrunk(self, node: Node) -> Node:
        weight = node.weights["w"]
        # Both kinds of indices in a trial, token ids and positions, choose among these rows.
        rows = Weight(weight.tensor, (64, weight.shape[1]), weight.quant)
        return replace(node, weights={"w": cut(rows, 64, SMALL)})

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        weight = node.weights["w"]
        rows = limits.count(node.inputs[0].shape)
        return (4 * limits.count(node.outputs[0].shape)
                + rows * weight_bytes(weight.name) // weight.shape[0])

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(ctx.weights["w"][inputs[0]])]
