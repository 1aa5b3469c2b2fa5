"""Gives each token the row of the token before (RWKV, Peng et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Inferred, Recurrent, Weights


class TokenShift(Recurrent):
    """``y[t] = x[t - 1]``: x f32 [T, n], with zeros before a sequence's first token. State: the
    last row."""

    name = "token_shift"

    def infer(self, node: Node) -> Inferred:
        return [(node.inputs[0].shape, "f32")]

    def state_size(self, node: Node) -> int:
        size = node.inputs[0].shape[-1]
        assert isinstance(size, int)
        return size

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        (x,) = inputs
        return [np.concatenate([state[None], x[:-1]])], x[-1]

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        return [np.zeros_like(inputs[0])], np.zeros_like(state)
