"""The base class of ops: a shape rule, a reference, a cost, and a bound of the rounding error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unladen.graph.batch import Batch
from unladen.graph.graph import KVSpec, Node, Value, Weight
from unladen.types import NO_SLOT, DType, Limits, Shape

Array = npt.NDArray[Any]
Inferred = Sequence[tuple[Shape, DType]]
Weights = Mapping[str, Array]

EPS32 = 2.0 ** -24
"""Unit roundoff of float32, half the distance from 1 to the next number; for error bounds."""

SMALL = 512
"""Columns to which :meth:`Op.shrunk` cuts a matrix: two blocks of the largest size."""


def act_block(block_size: int) -> int:
    """How many activations may share a scale if a device rounds them to int8 for weights in blocks
    of ``block_size``. 0: a device must not round them."""
    return 256 if block_size == 256 else 32 if 32 <= block_size < 256 else 0


def cut(weight: Weight, *most: int) -> Weight:
    """``weight`` cut to at most ``most`` entries, a number for each dimension."""
    return Weight(weight.tensor, tuple(map(min, weight.shape, most)), weight.quant)


def narrowed(value: Value, n: int) -> Value:
    """``value`` with ``n`` columns."""
    return Value(value.name, (*value.shape[:-1], n), value.dtype)


class KVState(Protocol):
    """The cache of one layer, as references of ops read and write it."""

    @property
    def spec(self) -> KVSpec:
        """The layer's geometry."""

    def store(self, batch: Batch, k: Array, v: Array) -> None:
        """Write k [T, n_kv_heads, k_dim] and v [T, n_kv_heads, v_dim] to the tokens' rows."""

    def load(self, batch: Batch, seq: int) -> tuple[Array, Array]:
        """All k [kv_len, n_kv_heads, k_dim] and v [kv_len, n_kv_heads, v_dim] of sequence ``seq``
        of this step, in float64."""


@dataclass(frozen=True, slots=True)
class RefContext:
    """What an op's reference reads in addition to its inputs."""

    batch: Batch
    weights: Mapping[str, Array]
    """The numbers of each weight by role: float64, slowest dimension first."""
    state: KVState | None = None
    act_block: Mapping[str, int] = field(default_factory=dict)
    """For error bounds, by role of a weight: how many activations share a scale, if the product
    with this weight takes them as int8. Products with weights of other roles take them as
    float32."""
    slots: Array | None = None
    """Recurrent states of the node, float [n_slots, state_size]. The reference writes to them."""


class Op:
    """One kind of node. Subclasses live one to a file in this folder and are found by scanning."""

    name: ClassVar[str]
    takes_quants: ClassVar[bool] = False
    """Whether its matrices may have any block format; weights of other ops are converted to F32."""
    is_row_wise: ClassVar[bool] = False
    """Whether a row of the outputs depends on the same row of the inputs alone, not on its
    position."""

    def infer(self, node: Node) -> Inferred:
        """Shapes and types of the outputs. Raises :class:`AssertionError` where inputs, weights or
        attributes don't suit the op."""
        raise NotImplementedError

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """The outputs, float64: the definition of the op."""
        raise NotImplementedError

    def state_size(self, node: Node) -> int:
        """How many float32 numbers each sequence keeps for ``node`` from step to step."""
        return 0

    def shrunk(self, node: Node) -> Node:
        """A smaller node that runs the same kernels, for a trial of them: inputs and weights are
        cut where size changes only the time. The outputs of the returned node stay as they are and
        are not read."""
        return node

    def flops(self, node: Node, limits: Limits) -> int:
        """Floating-point operations of ``node`` in the largest step of ``limits``."""
        return sum(limits.count(v.shape) for v in node.outputs)

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        """Bytes that ``node`` reads and writes in the largest step of ``limits``, weights included.
        ``weight_bytes(name)`` gives the bytes of a weight."""
        values = (*node.inputs, *node.outputs)
        return (4 * sum(limits.count(v.shape) for v in values)
                + sum(weight_bytes(w.name) for w in node.weights.values()))

    def cache_tokens(self, node: Node, limits: Limits) -> int:
        """Tokens whose keys and values are read or written. ``bytes_moved`` leaves these bytes out,
        since a graph doesn't say in which format the cache is."""
        return 0

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """For each output an array of its shape: a bound of the error of a float32 implementation.

        The bound follows from the number of terms and their magnitudes, and holds for every order
        of summation.
        """
        raise NotImplementedError


class Recurrent(Op):
    """An op whose outputs depend on a state that it updates, one for each sequence.

    A subclass defines :meth:`scan` over the tokens of one sequence, and :meth:`scan_bound` for its
    errors.
    """

    def state_size(self, node: Node) -> int:
        raise NotImplementedError

    def scan(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
             ) -> tuple[Sequence[Array], Array]:
        """The outputs for ``inputs`` [n, ...] of one sequence whose state is ``state``
        [state_size], and its new state."""
        raise NotImplementedError

    def scan_bound(self, node: Node, inputs: Sequence[Array], weights: Weights, state: Array
                   ) -> tuple[Sequence[Array], Array]:
        """Bounds of the errors of both results of :meth:`scan`, for an exact ``state``."""
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
        """Bounds of the errors of the new states, [n_seqs, state_size]."""
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
