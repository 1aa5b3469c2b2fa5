"""Cuts queries, keys and values off at a limit (MPT, 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Op, RefContext


class Clamp(Op):
    """``y = min(max(x, -limit), limit)``; attribute ``limit``."""

    name = "clamp"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        assert node.float_attr("limit") >= 0
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # Backends hold the limit as float32, so the reference rounds it, too.
        limit = np.float32(node.float_attr("limit"))
        return [np.clip(inputs[0], -limit, limit)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [np.zeros_like(inputs[0])]
