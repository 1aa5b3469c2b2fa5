"""Weighted sums of the parallel residual streams of hyper-connections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class HyperMix(Op):
    """``y[t, d] = sum_s w[t, s, d] x[t, s]``: D sums of S streams of ``width`` columns each.

    Inputs: one or more x f32 [T, k * width], which have S streams in all, then w f32 [T, S * D]
    with d fastest -> f32 [T, D * width]. Attribute ``width``.
    """

    name = "hyper_mix"

    def infer(self, node: Node) -> Inferred:
        n_in, n_out = stream_counts(node)
        assert n_in > 0 and n_out > 0 and node.inputs[-1].shape[-1] == n_in * n_out, node
        return [((node.inputs[0].shape[0], n_out * node.int_attr("width")), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        *xs, w = inputs
        n_in, n_out = stream_counts(node)
        x = np.concatenate(xs, axis=1).reshape(len(w), n_in, node.int_attr("width"))
        y = np.einsum("tsd,tsc->tdc", w.reshape(len(w), n_in, n_out), x)
        return [y.reshape(len(w), -1)]

    def flops(self, node: Node, limits: Limits) -> int:
        return 2 * stream_counts(node)[0] * limits.count(node.outputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        (sizes,) = self.reference(node, [np.abs(a) for a in inputs], ctx)
        return [(stream_counts(node)[0] + 1) * EPS32 * sizes]


def stream_counts(node: Node) -> tuple[int, int]:
    """How many streams go into a ``hyper_mix`` node, and how many come out."""
    columns = [int(v.shape[-1]) for v in node.inputs]
    n_in = sum(columns[:-1]) // node.int_attr("width")
    return n_in, columns[-1] // max(1, n_in)
