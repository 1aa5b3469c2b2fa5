"""Runs one node on a device and in the reference, on the same inputs, weights and cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import KVLayout, Options, Placed, PlacedKV, Segment
from unladen.graph.batch import Batch
from unladen.graph.graph import Attr, KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext
from unladen.quants import dequantize, get, quantize, registry
from unladen.schedule.fit import kv_bytes
from unladen.schedule.memory import ALIGNMENT
from unladen.types import Limits

Array = npt.NDArray[Any]
BATCH_NAMES = ("tokens", "positions", "out_rows")


def random_blocks(rng: np.random.Generator, quant: str, shape: tuple[int, ...]) -> Array:
    """Bytes of a tensor: any bits, but for scales of a sensible size."""
    values = rng.normal(size=shape).astype(np.float32)
    if quant in ("F32", "F16", "BF16"):
        return quantize(quant, values).reshape(-1)
    if quant == "F64":
        return values.astype("<f8").reshape(-1).view(np.uint8)
    n = int(np.prod(shape)) // get(quant).block_size
    raw = rng.integers(0, 256, (n, get(quant).block_bytes), np.uint8)
    if quant == "IQ1_M":  # the top nibbles of four words make up a float16
        words = raw[:, 48:].view("<u2")
        bits = rng.uniform(0.01, 0.1, n).astype(np.float16).view(np.uint16)
        for i in range(4):
            words[:, i] = (words[:, i] & 0xFFF) | (((bits >> (4 * i)) & 15) << 12)
    elif quant == "MXFP4":
        raw[:, 0] = rng.integers(118, 132, n)
    elif quant == "NVFP4":
        raw[:, :4] = rng.integers(40, 80, (n, 4))
    else:
        for at in scale_fields(quant):
            scale = rng.uniform(-0.1, 0.1, n).astype("<f2")
            raw[:, at:at + 2] = scale.view(np.uint8).reshape(n, 2)
    return raw.reshape(-1)


def scale_fields(quant: str) -> tuple[int, ...]:
    """Where a block's float16 numbers lie."""
    at = {"Q2_K": (80, 82), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2),
          "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)}
    return at.get(quant, (0,))


def all_quants() -> list[str]:
    """Every format that weights come in."""
    return [n for n in registry() if not n.startswith("I") or n.startswith("IQ")]


@dataclass
class Cache:
    """Contents of one layer's cache, the same on every device."""

    spec: KVSpec
    layout: KVLayout
    k: Array
    v: Array

    @classmethod
    def random(cls, rng: np.random.Generator, spec: KVSpec, layout: KVLayout) -> Cache:
        rows = layout.n_blocks * spec.n_kv_heads * layout.block_tokens
        k, v = (quantize(quant, rng.normal(size=(rows, dim)).astype(np.float32)).reshape(-1)
                for quant, dim in ((layout.k_type, spec.k_dim), (layout.v_type, spec.v_dim)))
        return cls(spec, layout, k, v)


@dataclass
class Case:
    """A node with everything it meets. ``inputs``: arrays, or the name of an array of the batch."""

    op: str
    inputs: Sequence[Array | str]
    batch: Batch
    limits: Limits
    weights: Mapping[str, tuple[str, tuple[int, ...], Array]] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    cache: Cache | None = None
    rows: str = "T"

    def node(self) -> Node:
        values = []
        for i, x in enumerate(self.inputs):
            if isinstance(x, str):
                values.append(Value(x, ("S",) if x == "out_rows" else ("T",), "i32"))
            else:
                values.append(Value(f"x{i}", (self.rows, x.shape[1]), "f32"))
        weights = {role: Weight(role, shape, quant) for role, (quant, shape, _)
                   in self.weights.items()}
        spec = self.cache.spec if self.cache else None
        draft = Node(self.op, self.op, tuple(values), (), weights, self.attrs, spec)
        outs = tuple(Value(f"y{i}", shape, dtype)
                     for i, (shape, dtype) in enumerate(get_op(self.op).infer(draft)))
        return Node(self.op, self.op, tuple(values), outs, weights, self.attrs, spec)

    def expected(self, *, bounds: bool = True) -> tuple[list[Array], list[Array], Cache | None]:
        """What the op's own reference makes of it, the bounds, and the cache after it."""
        node = self.node()
        inputs = [getattr(self.batch, x)[:self.batch.size("S" if x == "out_rows" else "T")]
                  if isinstance(x, str) else x.astype(np.float64) for x in self.inputs]
        weights = {role: dequantize(quant, raw, shape).astype(np.float64)
                   for role, (quant, shape, raw) in self.weights.items()}
        cache, state = None, None
        if self.cache is not None:
            from unladen.backends._host import HostBuffer
            from unladen.backends.reference.kv import PagedKV
            cache = Cache(self.cache.spec, self.cache.layout, self.cache.k.copy(),
                          self.cache.v.copy())
            device = backend_of("reference").open("reference", Options())
            state = PagedKV(PlacedKV(cache.spec, cache.layout, HostBuffer(device, cache.k),
                                     HostBuffer(device, cache.v)))
        op, context = get_op(self.op), RefContext(self.batch, weights, state)
        outs = [np.asarray(y) for y in op.reference(node, inputs, context)]
        off = [np.asarray(b) for b in op.error_bound(node, inputs, context)] if bounds else []
        return outs, off, cache

    def run(self, device_name: str) -> tuple[list[Array], Cache | None]:
        """What the device makes of it."""
        node, options = self.node(), Options()
        backend = backend_of(device_name)
        device = backend.open(device_name, options)
        offsets, top = {}, 0
        for value in (*node.inputs, *node.outputs):
            if value.dtype == "f32":
                offsets[value] = top
                top += -(-4 * self.limits.count(value.shape) // ALIGNMENT) * ALIGNMENT
        scratch = backend.scratch_bytes(node, self.limits, options)
        arena = backend.alloc(device, top + scratch, "arena")
        for value, x in zip(node.inputs, self.inputs, strict=True):
            if not isinstance(x, str):
                raw = np.ascontiguousarray(x, np.float32).view(np.uint8).reshape(-1)
                backend.write(arena, raw, offsets[value])
        placed = {}
        for role, (quant, shape, raw) in self.weights.items():
            weight = node.weights[role]
            wanted = backend.weight_format(node, weight)
            assert wanted is not None
            data = raw if wanted == quant else quantize(
                wanted, dequantize(quant, raw, shape)).reshape(-1)
            buffer = backend.alloc(device, data.nbytes, "weights", data.nbytes // shape[0])
            backend.write(buffer, data)
            placed[weight.name] = Placed(weight, buffer, 0, wanted)
        kv = {}
        if self.cache is not None:
            buffers = []
            for data in (self.cache.k, self.cache.v):
                buffers.append(backend.alloc(device, data.nbytes, "kv"))
                backend.write(buffers[-1], data)
            kv[self.cache.spec.layer] = PlacedKV(self.cache.spec, self.cache.layout, *buffers)
        inputs = {v: x for v, x in zip(node.inputs, self.inputs, strict=True) if isinstance(x, str)}
        program = backend.compile(Segment(device, [node], arena, offsets, inputs, (top, scratch),
                                          placed, kv, self.limits, self.batch, options))
        backend.run(program)
        backend.sync(device)
        outs = []
        for value in node.outputs:
            shape = tuple(self.batch.size(s) if isinstance(s, str) else s for s in value.shape)
            raw = backend.read(arena, 4 * int(np.prod(shape)), offsets[value])
            outs.append(raw.view(np.float32).reshape(shape).astype(np.float64))
        if self.cache is None:
            return outs, None
        sizes = kv_bytes(self.cache.spec, self.cache.layout)
        return outs, Cache(self.cache.spec, self.cache.layout,
                           *(backend.read(b, n) for b, n in zip(buffers, sizes, strict=True)))

    def check(self, device_name: str) -> None:
        """Within the op's own bound, and the same cache."""
        expected, bounds, cache = self.expected()
        mine, my_cache = self.run(device_name)
        for y, x, bound in zip(mine, expected, bounds, strict=True):
            over = np.abs(y - x) - bound
            worst = np.unravel_index(np.argmax(over), over.shape) if over.size else ()
            assert not over.size or over[worst] <= 0, (
                f"{self.op} {worst}: {y[worst]} instead of {x[worst]}, bound {bound[worst]}; "
                f"{np.count_nonzero(over > 0)} of {over.size} are off")
        if cache is not None and my_cache is not None:
            np.testing.assert_array_equal(my_cache.k, cache.k)
            np.testing.assert_array_equal(my_cache.v, cache.v)


def tokens_batch(rng: np.random.Generator, limits: Limits, lengths: Sequence[tuple[int, int]],
                 block_tokens: int = 32, n_outputs: int | None = None) -> Batch:
    """A step of sequences that have (tokens before, tokens in this step)."""
    batch = Batch.empty(limits)
    batch.n_seqs, at = len(lengths), 0
    free = rng.permutation(limits.n_blocks).tolist()
    for seq, (before, n) in enumerate(lengths):
        batch.positions[at:at + n] = np.arange(before, before + n)
        batch.seq_of[at:at + n] = seq
        batch.q_start[seq], batch.q_start[seq + 1] = at, at + n
        batch.kv_len[seq] = before + n
        for i in range(-(-(before + n) // block_tokens)):
            batch.block_table[seq, i] = free.pop()
        at += n
    batch.n_tokens = at
    batch.n_outputs = min(limits.n_outputs, at) if n_outputs is None else n_outputs
    batch.out_rows[:batch.n_outputs] = np.sort(rng.choice(at, batch.n_outputs, replace=False))
    return batch
