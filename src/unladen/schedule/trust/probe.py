"""Tries a kernel on a device: with one small node, in a step of several tokens and a step of one.

The numbers are pseudo-random and the same in every process, so a trial has the same result each
time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import (
    BackendOptions,
    Buffer,
    Device,
    KVLayout,
    Placed,
    PlacedKV,
    Segment,
    Use,
)
from unladen.errors import UnsupportedOp
from unladen.graph.batch import Batch
from unladen.graph.graph import Attr, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.base import EPS32, Array, Op, Recurrent, RefContext, act_block
from unladen.quants import convert, dequantize, file_format, get, quantize
from unladen.types import NO_ADAPTERS, NO_ROW, NO_SLOT, Limits, Shape

Bytes = npt.NDArray[np.uint8]

STEPS = (((6, 3), (29, 0)), ((1,), (29,)))
"""The steps of a trial: the tokens of each sequence, and the tokens that it has in the cache before
them. They cross the end of a block."""

N_TOKENS, N_OUTPUTS, N_CACHED, N_SLOTS, N_ROWS = 9, 3, 35, 4, 4
"""Largest numbers in :data:`STEPS`: tokens of a step, rows of logits, tokens in a cache, slots
of recurrent state, and rows from outside."""

ALIGNMENT = 256
"""Offsets and sizes of buffers are multiples of this many bytes, as a plan's are."""

SLACK = 2
"""A result may be off by this many times the bound of rounding errors: a trial looks for wrong
kernels, not for the last bit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A node without names: all nodes of a model that run the same kernels have equal samples.

    ``inputs``: the shape of each, and its name among the batch's arrays, "" for a value that
    another node made. ``weights``: the role and shape of each, and the format that the device gets.
    ``layout``: formats and blocks of the cache. ``rows``: tokens of steps besides :data:`STEPS`.
    """

    op: str
    inputs: tuple[tuple[Shape, str], ...]
    weights: tuple[tuple[str, tuple[int, ...], str], ...]
    attrs: tuple[tuple[str, Attr], ...]
    state: KVSpec | None
    layout: KVLayout
    rows: tuple[int, ...] = ()

    @classmethod
    def of(cls, node: Node, formats: dict[str, str], batch_inputs: dict[Value, str],
           layout: KVLayout, rows: Sequence[int] = ()) -> Sample:
        """The sample of ``node``, with its weights in ``formats`` (by role), and ``rows``."""
        small = get_op(node.op).shrunk(node)
        names = [batch_inputs.get(value, "") for value in node.inputs]
        spec = small.state
        shapes = [v.shape for v in small.inputs]
        if get_op(node.op).is_row_wise:  # rows are computed alike: one kind stands for all
            shapes = [("T", *shape[1:]) if shape[0] == "S" else shape for shape in shapes]
        return cls(
            node.op, tuple(zip(shapes, names, strict=True)),
            tuple((role, w.shape, formats[role]) for role, w in small.weights.items()),
            tuple(sorted(small.attrs.items())),
            None if spec is None else KVSpec(0, spec.n_kv_heads, spec.k_dim, spec.v_dim),
            replace(layout, n_blocks=-(-N_CACHED // layout.block_tokens)
                    + -(-max((N_TOKENS, *rows)) // layout.block_tokens)), tuple(rows))

    @property
    def limits(self) -> Limits:
        """The limits of a plan that has only this node."""
        shapes = {name: shape for shape, name in self.inputs}
        axes, rows = shapes.get("positions", ())[1:], shapes.get("rows", ())[1:]
        return Limits(max((N_TOKENS, *self.rows)), N_OUTPUTS, 2, self.layout.n_blocks,
                      self.layout.n_blocks, n_slots=N_SLOTS, n_axes=int(axes[0]) if axes else 1,
                      n_rows=N_ROWS if rows else 0, row_width=int(rows[0]) if rows else 0,
                      spans=True, adapters=True)

    def node(self) -> Node:
        """A node that runs the same kernels as the nodes that the sample stands for."""
        inputs = tuple(Value(name or f"x{i}", shape, "i32" if name not in ("", "rows") else "f32")
                       for i, (shape, name) in enumerate(self.inputs))
        weights = {role: Weight(role, shape, quant) for role, shape, quant in self.weights}
        bare = Node("probe", self.op, inputs, (), weights, dict(self.attrs), self.state, 0)
        outputs = tuple(Value(f"y{i}", shape, dtype)
                        for i, (shape, dtype) in enumerate(get_op(self.op).infer(bare)))
        return Node("probe", self.op, inputs, outputs, weights, bare.attrs, self.state, 0)


@functools.cache
def fault(device: Device, options: BackendOptions, sample: Sample, variant: str) -> str | None:
    """What is wrong with the kernels that ``sample`` needs; None: nothing is wrong, or the op has
    no error bound to judge by. ``variant``: the backend's present variant of kernels. Each variant
    is tried once in a process, and its result is remembered."""
    if type(get_op(sample.op)).error_bound is Op.error_bound:
        return None
    try:
        trial = _Trial(device, options, sample)
    except UnsupportedOp as error:
        return error.message
    steps = (*STEPS, *(((n,), (0,)) for n in sample.rows))
    return next((what for step in steps if (what := trial.run(*step)) is not None), None)


@dataclass(frozen=True, slots=True)
class _Cache:
    """The decoded cache of a layer for an op's reference: keys and values, [n_blocks, n_kv_heads,
    block_tokens, dim] each. The rows of a step are in it before the step, so the reference stores
    nothing here."""

    spec: KVSpec
    k: Array
    v: Array
    written: list[tuple[Array, Array]] = field(default_factory=list)

    def store(self, batch: Batch, k: Array, v: Array) -> None:
        self.written.append((k, v))

    def load(self, batch: Batch, seq: int) -> tuple[Array, Array]:
        where = _slots(batch, seq, np.arange(batch.kv_len[seq]), self.k.shape[2])
        return self.k[where], self.v[where]


def _slots(batch: Batch, seq: int, positions: npt.NDArray[np.int32], block_tokens: int
           ) -> tuple[Array, slice, Array]:
    return batch.block_table[seq, positions // block_tokens], slice(None), positions % block_tokens


class _Noise:
    """Pseudo-random numbers, the same in every process. NumPy's own generators would load another 6
    MB that nothing else needs."""

    def __init__(self, seed: int) -> None:
        self._next = seed << 32

    def bits(self, n: int) -> npt.NDArray[np.uint64]:
        """uint64 [n], by SplitMix64 (Steele, Lea and Flood 2014)."""
        z = np.arange(self._next + 1, self._next + 1 + n, dtype=np.uint64)
        self._next += n
        z *= np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
        return z ^ z >> np.uint64(31)

    def normal(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """float32 of ``shape``, nearly normal with mean 0 and variance 1: each is the sum of four
        uniform numbers, and at most 3.5 from 0."""
        parts = self.bits(math.prod(shape)).view(np.uint16).reshape(*shape, 4)
        sums = parts.sum(axis=-1, dtype=np.float64) / 65536 - 2
        return np.asarray(sums * math.sqrt(3), np.float32)


class _Trial:
    def __init__(self, device: Device, options: BackendOptions, sample: Sample) -> None:
        self.device, self.sample, self.node = device, sample, sample.node()
        self.backend, self.batch = backend_of(device.name), Batch.empty(sample.limits)
        self.noise = _Noise(0)
        self.offsets: dict[Value, int] = {}
        n_bytes = 0
        for value in (*self.node.inputs, *self.node.outputs):
            self.offsets[value] = n_bytes
            n_bytes += -(-4 * sample.limits.count(value.shape) // ALIGNMENT) * ALIGNMENT
        scratch = self.backend.scratch_bytes(device, self.node, sample.limits, options)
        self.arena = self.backend.alloc(device, max(n_bytes + scratch, ALIGNMENT), "arena")
        raw = {role: convert(file_format(quant), quant,
                             _weight_bytes(file_format(quant), math.prod(shape)), shape)
               for role, shape, quant in sample.weights}
        self.values = {role: dequantize(quant, raw[role], shape).astype(np.float64)
                       for role, shape, quant in sample.weights}
        placed = {role: Placed(w, self._filled(raw[role], "weights"), 0, w.quant)
                  for role, w in self.node.weights.items()}
        self.act_block = {} if options.precise else {
            role: act_block(get(quant).block_size) for role, shape, quant in sample.weights
            if len(shape) > 1 and role != "router" and act_block(get(quant).block_size)}
        names = {v: name for v, (_, name) in zip(self.node.inputs, sample.inputs, strict=True)
                 if name}
        self.kv: PlacedKV | None = None
        self.cache: _Cache | None = None
        if sample.state is not None:
            self._fill_cache(sample.state)
        size = get_op(self.node.op).state_size(self.node)
        self.slots = self.noise.normal((N_SLOTS, size))
        self.slot_buffers = {self.node.name: self._filled(
            self.slots.reshape(-1).view(np.uint8), "kv")} if size else {}
        self.program = self.backend.compile(Segment(
            device, (self.node,), self.arena, self.offsets, names, (n_bytes, scratch), placed,
            {} if self.kv is None else {0: self.kv},
            self.slot_buffers, sample.limits, self.batch, options))

    def _filled(self, data: Bytes, use: Use) -> Buffer:
        unit = 1 if use == "kv" else ALIGNMENT
        buffer = self.backend.alloc(self.device, -(-data.nbytes // unit) * unit, use)
        self.backend.write(buffer, data)
        return buffer

    def _fill_cache(self, spec: KVSpec) -> None:
        layout = self.sample.layout
        raw, decoded = [], []
        for quant, dim in ((layout.k_type, spec.k_dim), (layout.v_type, spec.v_dim)):
            shape = (layout.n_blocks, spec.n_kv_heads, layout.block_tokens, dim)
            raw.append(quantize(quant, self.noise.normal(shape)).reshape(-1))
            decoded.append(dequantize(quant, raw[-1], shape).astype(np.float64))
        self.kv = PlacedKV(spec, layout, self._filled(raw[0], "kv"), self._filled(raw[1], "kv"))
        self.cache = _Cache(spec, decoded[0], decoded[1])

    def run(self, counts: tuple[int, ...], histories: tuple[int, ...]) -> str | None:
        """What is wrong with a step of sequences of ``counts`` tokens, each after the number of
        cached tokens that ``histories`` says; None: nothing is wrong."""
        _fill(self.batch, counts, histories, self.sample.layout.block_tokens)
        self.batch.rows[...] = self.noise.normal(self.batch.rows.shape)
        inputs = []
        for value, (shape, name) in zip(self.node.inputs, self.sample.inputs, strict=True):
            sizes = tuple(self.batch.size(s) if isinstance(s, str) else s for s in shape)
            if name:
                inputs.append(getattr(self.batch, name)[:sizes[0]])
                continue
            x = (self.noise.normal(sizes) / math.sqrt(sizes[-1])).astype(np.float32)
            self.backend.write(self.arena, x.reshape(-1).view(np.uint8), self.offsets[value])
            inputs.append(x.astype(np.float64))
        self.backend.run(self.program)
        op = get_op(self.node.op)
        ctx = RefContext(self.batch, self.values, self.cache, self.act_block,
                         self.slots.astype(np.float64))
        wanted, bounds = (f(self.node, inputs, ctx) for f in (op.reference, op.error_bound))
        found = [_worse(self._output(v, y.shape), y, SLACK * bound + 4 * EPS32 * np.abs(y))
                 for v, y, bound in zip(self.node.outputs, wanted, bounds, strict=True)]
        if self.cache is not None and self.cache.written:
            found += self._stored(*self.cache.written.pop())
        if isinstance(op, Recurrent):
            found.append(self._left(op, inputs, ctx))
        return next((what for what in found if what is not None), None)

    def _output(self, value: Value, shape: tuple[int, ...]) -> Array:
        raw = self.backend.read(self.arena, 4 * math.prod(shape), self.offsets[value])
        return raw.view(value.numpy).reshape(shape).astype(np.float64)

    def _left(self, op: Recurrent, inputs: list[Array], ctx: RefContext) -> str | None:
        assert ctx.slots is not None
        raw = self.backend.read(self.slot_buffers[self.node.name], self.slots.nbytes)
        after = raw.view(np.float32).reshape(self.slots.shape)
        written = self.batch.state_out[:self.batch.n_seqs]
        bound = SLACK * op.state_bound(self.node, inputs, ctx)
        wanted = ctx.slots[written]
        self.slots[written] = after[written]
        return _worse(after[written], wanted, bound + 4 * EPS32 * np.abs(wanted))

    def _stored(self, k: Array, v: Array) -> list[str | None]:
        """What is wrong with the stored rows. A kernel may round otherwise than the format's NumPy
        code, but at most twice as far."""
        assert self.kv is not None and self.cache is not None
        found = []
        layout, batch, size = self.kv.layout, self.batch, self.kv.layout.block_tokens
        for rows, buffer, quant, before in ((k, self.kv.k, layout.k_type, self.cache.k),
                                            (v, self.kv.v, layout.v_type, self.cache.v)):
            raw = self.backend.read(buffer, get(quant).row_bytes(before.size))
            after = dequantize(quant, raw, before.shape).astype(np.float64)
            expected, allowed = before.copy(), np.zeros_like(before)
            rounded = dequantize(quant, quantize(quant, rows.astype(np.float32)).reshape(-1),
                                 rows.shape)
            for seq in range(batch.n_seqs):
                own = slice(batch.q_start[seq], batch.q_start[seq + 1])
                where = _slots(batch, seq, batch.index[own], size)
                expected[where] = rows[own]
                allowed[where] = 2 * np.abs(rounded - rows)[own].max(-1, keepdims=True)
            found.append(_worse(after, expected, allowed))
            before[...] = after
        return found


def _fill(batch: Batch, counts: tuple[int, ...], histories: tuple[int, ...], block_tokens: int
          ) -> None:
    batch.n_tokens, batch.n_seqs = sum(counts), len(counts)
    batch.n_outputs = min(N_OUTPUTS, batch.n_tokens)
    first, block = 0, batch.block_table.shape[1] - 1
    for seq, (n, history) in enumerate(zip(counts, histories, strict=True)):
        rows = slice(first, first + n)
        batch.seq_of[rows] = seq
        batch.index[rows] = history + np.arange(n)
        batch.kv_len[seq] = history + n
        batch.q_start[seq + 1] = first = first + n
        batch.state_in[seq] = 2 * seq if history else NO_SLOT
        batch.state_out[seq] = 2 * seq + 1
        for i in range(-(-(history + n) // block_tokens)):
            batch.block_table[seq, i], block = block, block - 1
    batch.tokens[:batch.n_tokens] = np.arange(batch.n_tokens) * 7 % 64
    batch.out_rows[:batch.n_outputs] = np.arange(batch.n_outputs) * batch.n_tokens // 3
    batch.n_rows = len(batch.rows)
    if batch.n_rows:
        batch.row_of[:] = np.arange(len(batch.row_of)) % (batch.n_rows + 1) + NO_ROW
    batch.adapter_of[:] = np.arange(len(batch.adapter_of)) + NO_ADAPTERS
    n = batch.n_tokens
    last = batch.index[batch.q_start[batch.seq_of[:n] + 1] - 1]
    batch.sees_to[:n] = np.minimum(batch.index[:n] // 2 * 2 + 1, last)  # each pair sees itself
    if batch.positions is not batch.index:
        batch.positions[:] = batch.index[:, None] + 3 * np.arange(batch.positions.shape[1])


def _worse(y: Array, wanted: Array, allowed: Array) -> str | None:
    off = np.nan_to_num(np.abs(y - wanted), nan=np.inf)
    off[~np.isfinite(wanted)] = 0  # random inputs may lie outside of the op's domain
    if np.all(off <= allowed):
        return None
    worst = np.unravel_index(np.argmax(off - allowed), y.shape)
    return (f"{y[worst]:.6g} instead of {wanted[worst]:.6g}, off by {off[worst]:.2g} "
            f"where {np.broadcast_to(allowed, y.shape)[worst]:.2g} is allowed")


def _weight_bytes(quant: str, n: int) -> Bytes:
    blocks = _blocks(quant)
    which = _Noise(n).bits(-(-n // get(quant).block_size)) % len(blocks)
    return blocks[which].reshape(-1)


@functools.cache
def _blocks(quant: str) -> Bytes:
    """Some random blocks whose weights are about 1 in size. Blocks of other sizes are left out:
    random bytes may be any scale."""
    noise, kind = _Noise(0), get(quant)
    if kind.block_size == 1:
        return quantize(quant, noise.normal((256, 1)))
    n_bytes = 192 * kind.block_bytes
    blocks = noise.bits(-(-n_bytes // 8)).view(np.uint8)[:n_bytes].reshape(192, -1)
    with np.errstate(all="ignore"):
        values = dequantize(quant, blocks.reshape(-1), (len(blocks), kind.block_size))
        away = np.abs(np.log(np.abs(values).max(axis=1)))
    return blocks[np.argsort(np.where(np.isfinite(away), away, np.inf))[:12]]
