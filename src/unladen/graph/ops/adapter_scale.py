"""Scales the results of low-rank adapters (Hu et al. 2021) as each sequence of a step asks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import NO_ADAPTERS


class AdapterScale(Op):
    """Scales the results of all adapters' first matrices: x f32 [T, r] -> f32 [T, r].

    Attribute ``ranks``: how many of the r columns belong to each adapter, in their order. Attribute
    ``scales``: for each set of adapters, one after another, a strength for each adapter. A token
    gets the strengths of set :attr:`Batch.adapter_of` of its sequence, or zeros where that is
    :data:`~unladen.types.NO_ADAPTERS`.
    """

    name = "adapter_scale"

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        assert x.shape[-1] == strengths(node).shape[1]
        return [(x.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [inputs[0] * self._by_token(node, len(inputs[0]), ctx)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # Two roundings to float32: that of the strength and that of the product.
        return [2 * EPS32 * np.abs(inputs[0] * self._by_token(node, len(inputs[0]), ctx))]

    def _by_token(self, node: Node, n_tokens: int, ctx: RefContext) -> Array:
        table = strengths(node)
        chosen = ctx.batch.adapter_of[ctx.batch.seq_of[:n_tokens]]
        return np.where(chosen[:, None] == NO_ADAPTERS, 0.0, table[chosen])


def strengths(node: Node) -> Array:
    """Float64 [n_sets, r]: the strength of each column in each set of an ``adapter_scale`` node."""
    ranks, scales = node.attrs["ranks"], node.attrs["scales"]
    assert isinstance(ranks, tuple) and isinstance(scales, tuple) and ranks
    assert len(scales) % len(ranks) == 0 and scales
    rows = np.asarray(scales, np.float64).reshape(-1, len(ranks))
    return np.repeat(rows, np.asarray(ranks, np.int64), axis=1)
