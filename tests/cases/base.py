"""What a case is, and how one is made at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen import quants
from unladen.backends._host import HostBuffer
from unladen.backends.base import Device, KVLayout, PlacedKV
from unladen.backends.reference.kv import PagedKV
from unladen.graph.batch import Batch
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Graph, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.base import act_block
from unladen.types import NO_ADAPTERS, NO_ROW, NO_SLOT, Limits, Shape

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

HOST = Device("case:0", "arrays of a case", 0, is_host=True)

@dataclass(frozen=True, slots=True)
class Case:
    """A graph of one node and a step of it.

    ``inputs`` hold the values that aren't the batch's own, by value; ``weights`` raw bytes by name;
    ``kv`` the bytes of the layer's K and V before the step, ``slots`` the recurrent state, float32
    [n_slots, state_size].
    """

    name: str
    graph: Graph
    limits: Limits
    batch: Batch
    inputs: Mapping[Value, Array]
    weights: Mapping[str, Bytes]
    layout: KVLayout
    kv: tuple[Bytes, Bytes] | None = None
    slots: Array | None = None

    @property
    def node(self) -> Node:
        """The one node."""
        return self.graph.nodes[0]

    @property
    def act_block(self) -> dict[str, int]:
        """By role of the matrix, how many activations may share the scale of their 8 bits; a router
        takes whole ones."""
        sizes = {role: quants.get(w.quant).block_size for role, w in self.node.weights.items()
                 if len(w.shape) > 1 and role != "router"}
        return {role: act_block(size) for role, size in sizes.items() if act_block(size)}

    def batch_inputs(self) -> dict[Value, str]:
        """The values that every step brings."""
        return {value: name for name, value in self.graph.inputs.items()}


class Maker:
    """One case in the making: a step of ``n_tokens`` at random, then inputs and weights.

    The step has up to ``n_seqs`` sequences of uneven lengths with histories of up to
    ``max_history`` tokens, whose cache blocks lie anywhere in the cache. The layer is of one of up
    to three groups with tables of their own. The plan's limits are a little larger than the step.
    Each token has a place on ``n_axes``; some have one of ``n_rows``
    rows of ``row_width`` numbers, see others behind them, and use one of ``n_sets`` of adapters.
    """

    def __init__(self, rng: np.random.Generator, n_tokens: int, *, n_seqs: int = 3,
                 max_history: int = 40, kv_types: tuple[str, str] = ("F32", "F32"),
                 n_axes: int = 1, n_rows: int = 0, row_width: int = 0, n_sets: int = 0) -> None:
        self.rng = rng
        self.g = GraphBuilder(n_axes)
        self.inputs: dict[Value, Array] = {}
        self.weights: dict[str, Bytes] = {}
        n_seqs = int(rng.integers(1, min(n_seqs, n_tokens) + 1))
        block_tokens = int(rng.choice([1, 5, 16, 32]))
        per_seq = -(-(max_history + n_tokens) // block_tokens)
        n_blocks = n_seqs * per_seq + 3
        n_outputs = int(rng.integers(1, n_tokens + 1))
        extra = int(rng.integers(0, 3))
        self.limits = Limits(n_tokens + extra, n_outputs + extra, n_seqs + extra, per_seq, n_blocks,
                             n_slots=2 * n_seqs + extra, n_axes=n_axes,
                             n_rows=n_rows + extra if n_rows else 0,
                             row_width=row_width, spans=True, adapters=n_sets > 0,
                             windows=((7, n_blocks), (9, n_blocks))[:int(rng.integers(0, 3))])
        group = int(rng.integers(0, 1 + len(self.limits.windows)))
        self.layout = KVLayout(block_tokens, n_blocks, *kv_types, first_column=group * per_seq)
        self.batch = self._step(n_tokens, n_seqs, n_outputs, max_history)
        self._extend(n_tokens, n_seqs, n_rows, n_sets)

    def _step(self, n_tokens: int, n_seqs: int, n_outputs: int, max_history: int) -> Batch:
        rng, batch = self.rng, Batch.empty(self.limits)
        batch.n_tokens, batch.n_seqs, batch.n_outputs = n_tokens, n_seqs, n_outputs
        cuts = np.sort(rng.choice(np.arange(1, n_tokens), n_seqs - 1, replace=False))
        batch.q_start[:n_seqs + 1] = [0, *cuts, n_tokens]
        for s in range(n_seqs):
            first, last = batch.q_start[s:s + 2]
            history = int(rng.integers(0, max_history + 1)) * int(rng.random() < 0.8)
            batch.seq_of[first:last] = s
            batch.index[first:last] = history + np.arange(last - first)
            batch.kv_len[s] = history + last - first
            batch.state_in[s] = NO_SLOT if history == 0 else 2 * s
            batch.state_out[s] = 2 * s + 1
        per_seq = self.limits.n_blocks_per_seq
        for first in range(0, self.limits.n_table_columns, per_seq):
            shuffled = rng.permutation(self.limits.n_blocks)[:n_seqs * per_seq]
            batch.block_table[:n_seqs, first:first + per_seq] = shuffled.reshape(n_seqs, per_seq)
        batch.out_rows[:n_outputs] = np.sort(rng.choice(n_tokens, n_outputs, replace=False))
        return batch

    def _extend(self, n_tokens: int, n_seqs: int, n_rows: int, n_sets: int) -> None:
        """What only some models' steps bring."""
        rng, batch = self.rng, self.batch
        if batch.positions is not batch.index:
            shape = n_tokens, batch.positions.shape[1]
            batch.positions[:n_tokens] = batch.index[:n_tokens, None] + rng.integers(0, 9, shape)
        batch.n_rows = n_rows
        batch.rows[:n_rows] = rng.standard_normal(batch.rows[:n_rows].shape)
        if n_rows:
            batch.row_of[:n_tokens] = rng.integers(NO_ROW, n_rows, n_tokens)
        if n_sets:
            batch.adapter_of[:n_seqs] = rng.integers(NO_ADAPTERS, n_sets, n_seqs)
        for first, end in pairwise(batch.q_start[:n_seqs + 1]):
            own, last = batch.index[first:end], int(batch.index[end - 1])
            sees = np.where(rng.random(end - first) < 0.7, own, rng.integers(own, last + 1))
            batch.sees_to[first:end] = np.maximum.accumulate(sees)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """``shape`` in this step."""
        return tuple(self.batch.size(s) if isinstance(s, str) else s for s in shape)

    def input(self, *shape: int | str, values: Array | None = None) -> Value:
        """A new float32 input of normal numbers, each row of another magnitude."""
        value = Value(f"x{len(self.inputs)}", shape)  # type: ignore[arg-type]
        if values is None:
            sizes = self.shape(value.shape)
            rows = np.exp(0.5 * self.rng.standard_normal((sizes[0], *[1] * (len(sizes) - 1))))
            values = self.rng.standard_normal(sizes) * rows
        self.inputs[value] = values.astype(np.float32)
        return value

    def weight(self, name: str, *shape: int, quant: str = "F32") -> Weight:
        """A new weight of numbers of about 1 in size."""
        weight = Weight(name, shape, quant)
        self.weights[name] = random_weights(self.rng, quant, weight.n_elements)
        return weight

    def case(self, op: str, *inputs: Value, weights: Mapping[str, Weight] | None = None,
             attrs: Mapping[str, Attr] | None = None, state: KVSpec | None = None,
             kv: tuple[Bytes, Bytes] | None = None) -> Case:
        """The finished case."""
        self.g.layer, self.g.n_layers = 0, 1
        outputs = self.g.add(op, inputs, name=op, weights=weights, attrs=attrs, state=state)
        graph = self.g.finish(**{f"y{i}": value for i, value in enumerate(outputs)})
        quantized = {w.quant for w in (weights or {}).values()}
        shapes = [list(self.shape(v.shape)) for v in inputs]
        name = f"{op} {shapes} {sorted(quantized)} {dict(attrs or {})!r:.200} {state} {self.layout}"
        size = get_op(op).state_size(graph.nodes[0])
        slots = self.rng.standard_normal((self.limits.n_slots, size), np.float32)
        return Case(name, graph, self.limits, self.batch, self.inputs, self.weights, self.layout,
                    kv, slots if size else None)

    def cache(self, spec: KVSpec) -> tuple[Bytes, Bytes]:
        """K and V as the batch's sequences left them, up to and with this step; NaN elsewhere."""
        rows = self.layout.n_blocks * self.layout.block_tokens * spec.n_kv_heads
        buffers = [HostBuffer(HOST, np.full(rows * quants.get(t).row_bytes(dim), 0xff, np.uint8))
                   for t, dim in ((self.layout.k_type, spec.k_dim),
                                  (self.layout.v_type, spec.v_dim))]
        paged = PagedKV(PlacedKV(spec, self.layout, *buffers))
        for s in range(self.batch.n_seqs):
            n = int(self.batch.kv_len[s])
            past = Batch.empty(Limits(n, 1, 1, self.limits.n_blocks_per_seq, self.limits.n_blocks,
                                      windows=self.limits.windows))
            past.n_tokens, past.index[:] = n, np.arange(n)
            past.block_table[0] = self.batch.block_table[s]
            k, v = (self.rng.standard_normal((n, spec.n_kv_heads, dim))
                    for dim in (spec.k_dim, spec.v_dim))
            paged.store(past, k, v)
        return buffers[0].data, buffers[1].data


def random_weights(rng: np.random.Generator, quant: str, n: int) -> Bytes:
    """Raw bytes of ``n`` weights: normal numbers where they are stored singly, else any blocks
    whose largest weight is among those nearest to 1 (a random scale may be anything)."""
    q = quants.get(quant)
    if quant in ("F32", "F16", "BF16"):
        return quants.quantize(quant, rng.standard_normal(n).astype(np.float32))
    # Enough that some are close to 1 in size where a scale is an exponent of 8 bits.
    blocks = rng.integers(0, 256, ((1 << 17) // q.block_size, q.block_bytes), np.uint8)
    with np.errstate(all="ignore"):
        values = quants.dequantize(quant, blocks.reshape(-1), (len(blocks), q.block_size))
        largest = np.abs(values).max(axis=1)
        usable = np.isfinite(largest) & (largest > 0)
        away = np.where(usable, np.abs(np.log(np.where(usable, largest, 1))), np.inf)
    best = blocks[np.argsort(away)[:32]]
    return best[rng.integers(0, len(best), n // q.block_size)].reshape(-1)
