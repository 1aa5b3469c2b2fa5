"""Nodes that one dispatch computes together give what each of them gives alone."""

from __future__ import annotations

import numpy as np
import pytest

from cases import running
from cases.base import HOST, Array, Bytes, Maker
from emulator.backend import EmulatorBackend
from unladen.backends import registry
from unladen.backends._gpu.joining import turned
from unladen.backends._host import HostBuffer
from unladen.backends.base import Backend, BackendOptions, PlacedKV, Program, Segment
from unladen.backends.reference.kv import PagedKV
from unladen.graph.graph import KVSpec, Node, Value
from unladen.graph.ops import get_op
from unladen.graph.ops.base import RefContext

Rng = np.random.Generator


@pytest.fixture(params=["emulator", "opencl", "wgpu"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "emulator":
        return EmulatorBackend()
    found = registry()[request.param]
    if not found.devices():
        pytest.skip(found.why_none())
    return found


class Turning:
    """A rotation of queries and keys, and the write of these keys, of a step at random. All
    products and sums of the rotation are exact, so results are the same to the bit."""

    def __init__(self, rng: Rng, style: str, kv_types: tuple[str, str], n_tokens: int) -> None:
        m = self.m = Maker(rng, n_tokens, kv_types=kv_types)
        dim = int(rng.choice([32, 64, 96]))
        n_rot, first = int(rng.choice([dim, dim // 2])), 0
        if n_rot < dim:
            first = int(rng.choice([0, 2]))
        self.spec = KVSpec(0, int(rng.integers(1, 4)), dim, int(rng.choice([32, 64])))
        n_heads = self.spec.n_kv_heads * int(rng.integers(1, 4))
        cols = n_heads * dim, self.spec.n_kv_heads * dim, self.spec.n_kv_heads * self.spec.v_dim
        self.q, self.k, self.v = (
            m.input("T", n, values=rng.integers(-99, 99, (n_tokens, n)) / 8) for n in cols)
        self.table = m.input("T", n_rot, values=rng.integers(-16, 17, (n_tokens, n_rot)) / 16)
        m.g.layer, m.g.n_layers = 0, 1
        self.turned = m.g.add("rope", (self.q, self.k, self.table), name="rope",
                              attrs={"head_dim": dim, "style": style, "first": first})
        m.g.add("kv_write", (self.turned[1], self.v), name="write", state=self.spec)
        self.graph = m.g.finish(y0=self.turned[0])
        self.kv = m.cache(self.spec)

    def on_paper(self) -> tuple[Array, tuple[Bytes, Bytes]]:
        """The rotated queries and the cache."""
        k, v = (data.copy() for data in self.kv)
        layout, (rope, write) = self.m.layout, self.graph.nodes
        state = PagedKV(PlacedKV(self.spec, layout, HostBuffer(HOST, k), HostBuffer(HOST, v)))
        ctx = RefContext(self.m.batch, {}, state)
        values = [self.m.inputs[x].astype(np.float64) for x in (self.q, self.k, self.table)]
        queries, keys = get_op("rope").reference(rope, values, ctx)
        get_op("kv_write").reference(write, [keys, self.m.inputs[self.v].astype(np.float64)], ctx)
        return queries, (k, v)

    def on(self, backend: Backend, *, joined: bool
           ) -> tuple[Program, Array, tuple[Bytes, Bytes]]:
        """The program, rotated queries and the cache of ``backend``."""
        device = running.device_of(backend)
        nodes, limits, options = self.graph.nodes, self.m.limits, BackendOptions()
        stored = backend.stored_bytes(device, nodes, frozenset({self.turned[1]}), limits, options)
        assert stored == {self.turned[1]: 0}
        offsets, n_bytes = {}, 0
        for value in (*self.m.inputs, *self.turned):
            offsets[value] = n_bytes
            # Nothing is stored of keys that are joined: their place is the next value's, too.
            n_bytes += 0 if joined and value in stored else (
                -(-4 * limits.count(value.shape) // 64) * 64)
        arena = backend.alloc(device, n_bytes + 64, "arena")
        buffers = [backend.alloc(device, data.nbytes, "kv") for data in self.kv]
        for buffer, data in zip(buffers, self.kv, strict=True):
            backend.write(buffer, data)
        backend.write(arena, np.full(arena.nbytes, 0xff, np.uint8))
        for value, array in self.m.inputs.items():
            backend.write(arena, running.as_bytes(array), offsets[value])
        names = {value: name for name, value in self.graph.inputs.items()}
        program = backend.compile(Segment(
            device, nodes, arena, offsets, names, (n_bytes, 0), {},
            {0: PlacedKV(self.spec, self.m.layout, buffers[0], buffers[1])}, {}, limits,
            self.m.batch, options, stored if joined else {}))
        backend.run(program)
        shape = self.m.shape(self.turned[0].shape)
        raw = backend.read(arena, 4 * int(np.prod(shape)), offsets[self.turned[0]]).copy()
        k, v = (backend.read(b, b.nbytes).copy() for b in buffers)
        return program, raw.view(np.float32).reshape(shape), (k, v)


@pytest.mark.parametrize("style", ["norm", "neox"])
@pytest.mark.parametrize("kv_types", [("F32", "F32"), ("F16", "F16"), ("Q8_0", "F16")])
def test_keys_are_rotated_into_the_cache(backend: Backend, style: str, kv_types: tuple[str, str],
                                         rng: Rng) -> None:
    for n_tokens in (1, 2, 35):
        case = Turning(rng, style, kv_types, n_tokens)
        queries, cache = case.on_paper()
        for joined in (True, False):
            program, y, found = case.on(backend, joined=joined)
            assert [d.kernel for d in program.lowered.dispatches] == (  # type: ignore[attr-defined]
                ["kv_write"] if joined else ["rope", "kv_write"])
            np.testing.assert_array_equal(y, queries)
            for mine, wanted in zip(found, cache, strict=True):
                np.testing.assert_array_equal(mine, wanted)


def test_a_key_beyond_float16_spoils_its_value(backend: Backend, rng: Rng) -> None:
    """Also where only the rotated key is too large."""
    case = Turning(rng, "norm", ("F16", "F16"), 3)
    before = case.on_paper()[1][1].view(np.float16)
    case.m.inputs[case.k][1] = 60000.0
    case.m.inputs[case.table][...] = 1.0
    wanted = case.on_paper()[1][1]
    values = case.on(backend, joined=True)[2][1]
    np.testing.assert_array_equal(values, wanted)
    spoiled = np.isnan(values.view(np.float16)) & ~np.isnan(before)
    assert spoiled.sum() == case.spec.n_kv_heads


def test_what_is_not_joined(rng: Rng) -> None:
    """Keys that something else reads, other nodes between, and heads of another size."""
    case = Turning(rng, "norm", ("F32", "F32"), 2)
    rope, write = case.graph.nodes
    queries, keys = rope.outputs
    assert turned((rope, write), {keys}) == {keys: rope}
    assert not turned((rope, write), {queries})
    between = Node("scale", "scale", (queries,), (Value("s", queries.shape),), {}, {}, None, 0)
    assert not turned((rope, between, write), {keys})
    reader = Node("scale", "scale", (keys,), (Value("s", keys.shape),), {}, {}, None, 0)
    assert not turned((rope, write, reader), {keys})
    twice = Node("write", "kv_write", (keys, keys), (), {}, {}, write.state, 0)
    assert not turned((rope, twice), {keys})
    other = Node("rope", "rope", rope.inputs, rope.outputs, {},
                 {**rope.attrs, "head_dim": case.spec.k_dim // 2}, None, 0)
    assert not turned((other, write), {keys})
