"""Gated linear units (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext
from unladen.graph.ops.gated import GatedUnit
from unladen.types import Limits


class Glu(Op):
    """``y = act(gate) * up``: gate f32 [T, n / k], up f32 [T, n]; k columns of up share a gate.

    Attributes ``act`` and, optional, those of :class:`~unladen.graph.ops.gated.GatedUnit`.
    """

    name = "glu"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        gate, up = node.inputs
        assert isinstance(gate.shape[-1], int) and isinstance(up.shape[-1], int)
        assert gate.shape[:-1] == up.shape[:-1] and up.shape[-1] % gate.shape[-1] == 0
        GatedUnit.of(node)
        return [(up.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [GatedUnit.of(node)(*_spread(*inputs))]

    def flops(self, node: Node, limits: Limits) -> int:
        return 17 * limits.count(node.inputs[1].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        gate, up = _spread(*inputs)
        exact = np.zeros_like(up)
        return [GatedUnit.of(node).error(gate, up, exact, exact)]


def _spread(gate: Array, up: Array) -> tuple[Array, Array]:
    return np.repeat(gate, up.shape[-1] // gate.shape[-1], axis=-1), up
