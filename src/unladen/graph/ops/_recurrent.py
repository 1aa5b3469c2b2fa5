"""What ops with a state from step to step share: the walk over a step's sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unladen.graph.batch import NO_SLOT
from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, Op, RefContext

Weights = Mapping[str, Array]


class Recurrent(Op):
    """An op whose outputs depend on a state that it changes, each sequence by itself.

    A subclass says how: :meth:`scan` the tokens of one sequence, and :meth:`scan_bound` the errors.
    """

    def state_size(self, node: Node) -> int:
        raise NotImplementedError

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        """Outputs for inputs [n, ...] of one sequence after ``state`` [state_size]; the new state.
        """
        raise NotImplementedError

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """Bounds of the errors of what :meth:`scan` gives, ``state`` being exact."""
        raise NotImplementedError

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        assert ctx.slots is not None
        outputs: list[Sequence[Array]] = []
        for seq, state in enumerate(self._states(node, ctx)):
            ys, after = self.scan(node, _rows(inputs, ctx, seq), ctx.weights, state)
            outputs.append(ys)
            ctx.slots[ctx.batch.state_out[seq]] = after
        return [np.concatenate(parts) for parts in zip(*outputs, strict=True)]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        found = [self.scan_bound(node, _rows(inputs, ctx, seq), ctx.weights, state)[0]
                 for seq, state in enumerate(self._states(node, ctx))]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def state_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Array:
        """Bounds of the new states, [n_seqs, state_size]."""
        return np.stack([self.scan_bound(node, _rows(inputs, ctx, seq), ctx.weights, state)[1]
                         for seq, state in enumerate(self._states(node, ctx))])

    def _states(self, node: Node, ctx: RefContext) -> list[Array]:
        assert ctx.slots is not None
        zeros = np.zeros(self.state_size(node))
        return [zeros if slot == NO_SLOT else np.asarray(ctx.slots[slot], np.float64)
                for slot in ctx.batch.state_in[:ctx.batch.n_seqs]]


def _rows(inputs: Sequence[Array], ctx: RefContext, seq: int) -> list[Array]:
    first, last = ctx.batch.q_start[seq:seq + 2]
    return [x[first:last] for x in inputs]
