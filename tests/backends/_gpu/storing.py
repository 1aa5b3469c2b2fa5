"""Cases of nodes that one dispatch computes, of which the last writes to the cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cases import running
from cases.base import HOST, Array, Bytes, Maker
from emulator.backend import ORDERS, EmulatorBackend
from unladen import quants
from unladen.backends._gpu.step import Size
from unladen.backends._host import HostBuffer
from unladen.backends.base import (
    Backend,
    BackendOptions,
    Buffer,
    Placed,
    PlacedKV,
    Program,
    Segment,
)
from unladen.backends.reference.kv import PagedKV
from unladen.graph.graph import Graph, KVSpec, Value
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext
from unladen.schedule.cut.arena import plan_arena
from unladen.schedule.cut.segments import RunStep

Rng = np.random.Generator
PRECISE = BackendOptions(precise=True)


class Joined:
    """Nodes of a step at random, run as one dispatch or each by itself. All that they compute is
    exact, so results are the same to the bit. A subclass makes the nodes.

    * ``m``: makes the step, and holds inputs and weights.
    * ``spec``, ``kv``: the cache, and its bytes before the step.
    * ``graph``: the nodes, the last of which writes to the cache.
    * ``queries``: the value that they compute besides.
    * ``inner``: the values that only they read.
    * ``passed``: those of ``inner`` that pass within one dispatch.
    * ``unstored``: those of ``inner`` that take no bytes of the arena.
    * ``coded``: those of ``inner`` that may take other bytes than float32 has, as int8 or besides.
    """

    m: Maker
    spec: KVSpec
    kv: tuple[Bytes, Bytes]
    graph: Graph
    queries: Value
    inner: frozenset[Value]
    passed: set[Value]
    unstored: set[Value]
    coded: frozenset[Value] = frozenset()

    def on_paper(self) -> tuple[Array, tuple[Bytes, Bytes]]:
        """The queries and the cache."""
        k, v = (data.copy() for data in self.kv)
        state = PagedKV(PlacedKV(self.spec, self.m.layout, HostBuffer(HOST, k),
                                 HostBuffer(HOST, v)))
        values = {x: data.astype(np.float64) for x, data in self.m.inputs.items()}
        for node in self.graph.nodes:
            weights = {role: quants.dequantize(w.quant, self.m.weights[w.name].reshape(-1),
                                               w.shape).astype(np.float64)
                       for role, w in node.weights.items()}
            ctx = RefContext(self.m.batch, weights, state)
            found = get_op(node.op).reference(node, [values[x] for x in node.inputs], ctx)
            values |= dict(zip(node.outputs, found, strict=True))
        return values[self.queries], (k, v)

    def compiled(self, backend: Backend, *, joined: bool, options: BackendOptions = PRECISE
                 ) -> tuple[Program, Buffer, int, Sequence[Buffer]]:
        """The program of ``backend``, its arena, the offset of the queries there, and the cache."""
        device, m, nodes = running.device_of(backend), self.m, self.graph.nodes
        stored, passed = {}, set[Value]()
        if joined:
            stored = dict(backend.stored_bytes(device, nodes, self.inner, m.limits, options))
            passed = set(backend.passed_values(device, nodes, self.inner))
            assert passed == self.passed
            assert {value for value, n in stored.items() if n == 0} == self.unstored
            assert stored.keys() - self.unstored <= self.coded
        arena = plan_arena(self.graph, [RunStep(device, tuple(nodes))], device.name, m.limits,
                           max(backend.scratch_bytes(device, n, m.limits, options)
                               for n in nodes), stored, passed)
        offsets, n_bytes = dict(arena.offsets), arena.nbytes
        for value in m.inputs:
            offsets[value] = n_bytes
            n_bytes += -(-4 * m.limits.count(value.shape) // 256) * 256
        memory = backend.alloc(device, n_bytes, "arena")
        backend.write(memory, np.full(memory.nbytes, 0xff, np.uint8))
        for value, array in m.inputs.items():
            backend.write(memory, running.as_bytes(array), offsets[value])
        buffers = [backend.alloc(device, data.nbytes, "kv") for data in self.kv]
        for buffer, data in zip(buffers, self.kv, strict=True):
            backend.write(buffer, data)
        program = backend.compile(Segment(
            device, nodes, memory, offsets, {}, (arena.scratch_offset, arena.scratch_bytes),
            self._placed(backend),
            {0: PlacedKV(self.spec, m.layout, buffers[0], buffers[1])}, {}, m.limits, m.batch,
            options, stored, passed))
        return program, memory, offsets[self.queries], buffers

    def on(self, backend: Backend, *, joined: bool, options: BackendOptions = PRECISE
           ) -> tuple[Sequence[str], Array, tuple[Bytes, Bytes]]:
        """The kernels that run, the queries and the cache of ``backend``."""
        m = self.m
        program, memory, at, buffers = self.compiled(backend, joined=joined, options=options)
        # The emulator takes another order of threads in each run.
        for _ in ORDERS if isinstance(backend, EmulatorBackend) else (0,):
            backend.run(program)
        shape = m.shape(self.queries.shape)
        raw = backend.read(memory, 4 * int(np.prod(shape)), at).copy()
        k, v = (backend.read(b, b.nbytes).copy() for b in buffers)
        n = m.batch.n_tokens
        size = Size(n, m.batch.n_outputs, 1, 1, n == m.batch.n_seqs, frozenset())
        return [d.kernel for d in program.lowered.dispatches  # type: ignore[attr-defined]
                if d.grid(size) is not None], raw.view(np.float32).reshape(shape), (k, v)

    def _placed(self, backend: Backend) -> dict[str, Placed]:
        placed, device = {}, running.device_of(backend)
        for node, weight in ((n, w) for n in self.graph.nodes for w in n.weights.values()):
            quant = backend.weight_format(device, node, weight)
            assert quant is not None
            raw = quants.convert(weight.quant, quant, self.m.weights[weight.name].reshape(-1),
                                 weight.shape)
            buffer = backend.alloc(device, raw.nbytes, "weights")
            backend.write(buffer, raw)
            placed[weight.name] = Placed(weight, buffer, 0, quant)
        return placed

    def check(self, backend: Backend, *, joined: bool) -> Sequence[str]:
        """Compare what ``backend`` computes to the bit, and return the kernels that it runs."""
        queries, cache = self.on_paper()
        ran, y, found = self.on(backend, joined=joined)
        np.testing.assert_array_equal(y, queries)
        for mine, wanted in zip(found, cache, strict=True):
            np.testing.assert_array_equal(mine, wanted)
        return ran


class Storing(Joined):
    """Products of one input, a rotation and a write, of a step at random. With weights in F32 or
    F16 all products and sums are exact, so results are the same to the bit.

    ``style``: of the rotation, "" for none.
    """

    def __init__(self, rng: Rng, style: str, n_tokens: int, *, formats: Sequence[str],
                 kv_types: tuple[str, str] = ("F32", "F16"), biases: bool = False,
                 dim: int = 32, rotated: tuple[int, int] = (0, 32), n_in: int = 64) -> None:
        m = self.m = Maker(rng, n_tokens, kv_types=kv_types)
        self.spec = spec = KVSpec(0, int(rng.integers(1, 3)), dim, 16 * int(rng.integers(1, 4)))
        rows = (spec.n_kv_heads * int(rng.integers(1, 3)) * dim, spec.n_kv_heads * dim,
                spec.n_kv_heads * spec.v_dim)
        self.x = m.input("T", n_in, values=rng.integers(-9, 10, (n_tokens, n_in)) / 4)
        first, n_rot = rotated
        self.table = m.input("T", n_rot, values=rng.integers(-8, 9, (n_tokens, n_rot)) / 8)
        m.g.layer, m.g.n_layers = 0, 1
        weights = {}
        for i, (n, quant) in enumerate(zip(rows, formats, strict=True)):
            weights[f"w{i}"] = m.weight(f"w{i}", n, n_in, quant=quant)
            if quant in ("F32", "F16"):
                m.weights[f"w{i}"] = quants.quantize(
                    quant, rng.integers(-3, 4, n * n_in).astype(np.float32))
            if biases:
                weights[f"b{i}"] = m.weight(f"b{i}", n)
                m.weights[f"b{i}"] = running.as_bytes(rng.integers(-9, 10, n).astype(np.float32))
        self.made = m.g.add("linear", (self.x,), name="qkv", weights=weights)
        queries, keys, values = self.made
        self.passed = {keys, values}
        if style:
            queries, keys = m.g.add("rope", (queries, keys, self.table), name="rope", attrs={
                "head_dim": dim, "style": style, "first": first})
            self.passed |= {self.made[0]}
        m.g.add("kv_write", (keys, values), name="write", state=spec)
        self.queries, self.keys = queries, keys
        self.inner = frozenset({*self.made, keys} - {queries})
        self.unstored = {keys} - {*self.made}
        self.graph = m.g.finish(y0=queries)
        self.kv = m.cache(spec)

class Norming(Joined):
    """Norms of heads of queries and keys, a rotation and a write. The numbers of a head are all of
    one size, a power of two, and so is its norm.

    ``style``: of the rotation, "" for none.
    """

    def __init__(self, rng: Rng, style: str, n_tokens: int, *, dim: int = 64,
                 kv_types: tuple[str, str] = ("F32", "F16"), rotated: tuple[int, int] = (0, 32)
                 ) -> None:
        m = self.m = Maker(rng, n_tokens, kv_types=kv_types)
        self.spec = KVSpec(0, int(rng.integers(1, 4)), dim, 32 * int(rng.integers(1, 4)))
        n_heads = self.spec.n_kv_heads
        self.q, self.k = (m.input("T", n * dim, values=self._heads(rng, n_tokens, n))
                          for n in (n_heads * int(rng.integers(1, 4)), n_heads))
        n_values = n_heads * self.spec.v_dim
        self.v = m.input("T", n_values, values=rng.integers(-99, 99, (n_tokens, n_values)) / 8)
        first, n_rot = rotated
        self.table = m.input("T", n_rot, values=rng.integers(-16, 17, (n_tokens, n_rot)) / 16)
        m.g.layer, m.g.n_layers = 0, 1
        made = []
        for name, x, eps in (("q", self.q, 3.0), ("k", self.k, 15.0)):
            w = m.weight(f"{name}_w", dim)
            m.weights[w.name] = running.as_bytes(rng.integers(4, 33, dim).astype(np.float32) / 8)
            made += m.g.add("rms_norm", (x,), name=f"{name}_norm", weights={"w": w},
                            attrs={"eps": eps, "group": dim})
        self.norms = tuple(made)
        if style:
            made = list(m.g.add("rope", (*made, self.table), name="rope", attrs={
                "head_dim": dim, "style": style, "first": first}))
        m.g.add("kv_write", (made[1], self.v), name="write", state=self.spec)
        self.queries, self.keys = made
        self.inner = frozenset({*self.norms, self.keys} - {self.queries})
        self.passed, self.unstored = set(self.norms) - {self.queries}, set(self.inner)
        self.graph = m.g.finish(y0=self.queries)
        self.kv = m.cache(self.spec)

    def _heads(self, rng: Rng, n_tokens: int, n_heads: int) -> Array:
        """Numbers of size 1, or 0 in a few heads, whose norms ``eps`` alone makes."""
        signs = rng.choice([-1.0, 1.0], (n_tokens, n_heads, self.spec.k_dim))
        return (signs * (rng.random((n_tokens, n_heads, 1)) < 0.8)).reshape(n_tokens, -1)
