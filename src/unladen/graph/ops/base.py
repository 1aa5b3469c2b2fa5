"""What an op is: a shape rule, a reference, its cost, and a bound of its rounding error."""

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
"""Unit roundoff of float32: half the distance from 1 to the next number."""


SMALL = 512
"""Columns to which :meth:`Op.shrunk` cuts a matrix: two of the largest blocks."""


def act_block(block_size: int) -> int:
    """How many activations may share a scale where a device rounds them to 8 bits for weights in
    blocks of ``block_size``; 0: it doesn't round them."""
    return 256 if block_size == 256 else 32 if 32 <= block_size < 256 else 0


def cut(weight: Weight, *most: int) -> Weight:
    """``weight`` with at most so many entries in each dimension."""
    return Weight(weight.tensor, tuple(map(min, weight.shape, most)), weight.quant)


def narrowed(value: Value, n: int) -> Value:
    """``value`` with ``n`` columns."""
    return Value(value.name, (*value.shape[:-1], n), value.dtype)


class KVState(Protocol):
    """The cache of one layer as the reference sees it."""

    @property
    def spec(self) -> KVSpec:
        """The layer's geometry."""

    def store(self, batch: Batch, k: Array, v: Array) -> None:
        """Keep k [T, n_kv_heads, k_dim] and v [T, n_kv_heads, v_dim] in the tokens' rows."""

    def load(self, batch: Batch, seq: int) -> tuple[Array, Array]:
        """All k [kv_len, n_kv_heads, k_dim] and v of sequence ``seq`` of this step, float64."""


@dataclass(frozen=True, slots=True)
class RefContext:
    """What a reference may use beside its inputs."""

    batch: Batch
    weights: Mapping[str, Array]
    """Role -> float64 numbers, shape slowest dimension first."""
    state: KVState | None = None
    act_block: Mapping[str, int] = field(default_factory=dict)
    """For error bounds: role of a weight -> how many activations share a scale, where they meet
    this weight as int8. Roles that are absent meet float32 activations."""
    slots: Array | None = None
    """Recurrent state of the node, float [n_slots, state_size]; a reference writes to it."""


class Op:
    """One kind of node. Subclasses live one to a file in this folder and are found by scanning."""

    name: ClassVar[str]
    takes_quants: ClassVar[bool] = False
    """Its matrices may come in any block format; weights of other ops are made F32."""
    is_row_wise: ClassVar[bool] = False
    """Each row of the outputs depends on that row of the inputs alone, whatever its position."""

    def infer(self, node: Node) -> Inferred:
        """Shapes and types of the outputs; asserts what the op demands of its inputs."""
        raise NotImplementedError

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """The outputs, computed plainly in float64 (float32 at the edges)."""
        raise NotImplementedError

    def state_size(self, node: Node) -> int:
        """Float32 numbers that each sequence keeps for ``node`` from step to step."""
        return 0

    def shrunk(self, node: Node) -> Node:
        """A smaller node that runs the same kernels, for a trial: inputs and weights are cut where
        size changes nothing but the time. The trial doesn't look at the outputs."""
        return node

    def flops(self, node: Node, limits: Limits) -> int:
        """Floating-point operations of a step of the size ``limits``."""
        return sum(limits.count(v.shape) for v in node.outputs)

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        """Bytes read and written, weights included: ``weight_bytes(name)`` gives their size."""
        values = (*node.inputs, *node.outputs)
        return (4 * sum(limits.count(v.shape) for v in values)
                + sum(weight_bytes(w.name) for w in node.weights.values()))

    def cache_tokens(self, node: Node, limits: Limits) -> int:
        """Tokens whose keys and values are read or written; ``bytes_moved`` leaves them out, since
        the format of a cache is no matter of the graph."""
        return 0

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """For each output a bound, per element, of a float32 implementation's error.

        Derived from the sizes and the magnitudes of the terms; holds for every order of summation.
        """
        raise NotImplementedError


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
