"""Gated linear units (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.activation import ACTIVATIONS, activation_error
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class Glu(Op):
    """``y = act(gate) * up``: two f32 [T, n]; attribute ``act``."""

    name = "glu"

    def infer(self, node: Node) -> Inferred:
        gate, up = node.inputs
        assert gate.shape == up.shape and node.attrs["act"] in ACTIVATIONS
        return [(gate.shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        gate, up = inputs
        return [ACTIVATIONS[str(node.attrs["act"])](gate) * up]

    def flops(self, node: Node, limits: Limits) -> int:
        return 17 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        gate, up = inputs
        off = activation_error(str(node.attrs["act"]), gate) * np.abs(up)
        return [off + 2 * EPS32 * np.abs(self.reference(node, inputs, ctx)[0])]
