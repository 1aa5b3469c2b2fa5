"""Attention whose rows are rounded to int8 as shares of keys are joined, for a product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from backends._gpu.storing import Joined
from cases.base import HOST, Array, Maker
from emulator.backend import ORDERS
from unladen import quants
from unladen.backends._host import HostBuffer
from unladen.backends.base import Backend, BackendOptions, KVLayout, PlacedKV
from unladen.backends.reference.kv import PagedKV
from unladen.graph.graph import KVSpec
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext, act_block
from unladen.types import Limits

Rng = np.random.Generator
ROUNDED = BackendOptions()


class Attending(Joined):
    """Attention and a product of its rows, of a decode step with these ``lengths`` of sequences."""

    def __init__(self, rng: Rng, lengths: Sequence[int], *, quant: str = "Q8_0", v_dim: int = 64,
                 n_heads: int = 8, kv_types: tuple[str, str] = ("F16", "F16"),
                 readers: int = 1) -> None:
        self.m = decode_step(rng, lengths, kv_types)
        m, self.spec = self.m, KVSpec(0, 2, 64, v_dim)
        m.g.layer, m.g.n_layers = 0, 1
        (self.rows,) = m.g.add("attention", (m.input("T", n_heads * 64),), name="attention",
                               state=self.spec, attrs={"n_heads": n_heads, "scale": 0.125})
        found = [m.g.add("linear", (self.rows,), name=f"linear{i}", weights={
            "w0": m.weight(f"w{i}", 48, n_heads * v_dim, quant=quant)})[0]
            for i in range(readers)]
        self.queries = found[0]
        self.inner = self.coded = frozenset({self.rows})
        self.passed, self.unstored = set(), set()
        self.graph = m.g.finish(**{f"y{i}": y for i, y in enumerate(found)})
        self.kv = m.cache(self.spec)

    def bounded(self) -> tuple[Array, Array]:
        """The product, and its bound: that of a product of exact rows, and what a wrong row adds to
        it."""
        attention, linear = self.graph.nodes
        (x,) = self.m.inputs.values()
        cache = PagedKV(PlacedKV(self.spec, self.m.layout, HostBuffer(HOST, self.kv[0]),
                                 HostBuffer(HOST, self.kv[1])))
        inputs, ctx = [x.astype(np.float64)], RefContext(self.m.batch, {}, cache)
        rows = get_op("attention").reference(attention, inputs, ctx)
        (off,) = get_op("attention").error_bound(attention, inputs, ctx)
        w = linear.weights["w0"]
        weight = quants.dequantize(w.quant, self.m.weights[w.name], w.shape).astype(np.float64)
        block = act_block(quants.get(w.quant).block_size)
        ctx = RefContext(self.m.batch, {"w0": weight}, None, {"w0": block})
        op = get_op("linear")
        (y,), (bound,) = op.reference(linear, rows, ctx), op.error_bound(linear, rows, ctx)
        return y, 1.001 * bound + off @ np.abs(weight).T

    def computed(self, backend: Backend, *, joined: bool) -> tuple[Sequence[Mapping], Array]:
        """The kernels that run with their constants, and the product, in each order of threads."""
        program, memory, at, _ = self.compiled(backend, joined=joined, options=ROUNDED)
        for _ in ORDERS:
            backend.run(program)
        _, size = program.step.pack()  # type: ignore[attr-defined]
        ran = [{"kernel": d.kernel, **d.constants}
               for d in program.lowered.dispatches  # type: ignore[attr-defined]
               if d.grid(size) is not None]
        shape = self.m.shape(self.queries.shape)
        raw = backend.read(memory, 4 * int(np.prod(shape)), at).copy()
        return ran, raw.view(np.float32).reshape(shape)


def decode_step(rng: Rng, lengths: Sequence[int], kv_types: tuple[str, str]) -> Maker:
    """A step of one token of each sequence."""
    n, per_seq = len(lengths), -(-max(lengths) // 32)
    m = Maker(rng, n, n_seqs=1, max_history=0, kv_types=kv_types)
    m.limits = Limits(n, n, n, per_seq, n * per_seq)
    m.layout = KVLayout(32, n * per_seq, *kv_types)
    b = m.batch = m.batch.empty(m.limits)
    b.n_tokens = b.n_outputs = b.n_seqs = n
    b.index[:], b.kv_len[:], b.seq_of[:] = np.array(lengths) - 1, lengths, np.arange(n)
    b.q_start[:] = np.arange(n + 1)
    b.out_rows[:] = np.arange(n)
    b.block_table[:] = rng.permutation(n * per_seq).reshape(n, per_seq)
    return m
