"""Nodes that one dispatch computes together give what each of them gives alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cases import running
from cases.base import HOST, Array, Bytes, Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen import quants
from unladen.backends import registry
from unladen.backends._gpu.joining import rounded, turned
from unladen.backends._gpu.lowering._products import FEW_ROWS
from unladen.backends._gpu.step import Size
from unladen.backends._host import HostBuffer
from unladen.backends.base import Backend, BackendOptions, Placed, PlacedKV, Program, Segment
from unladen.backends.opencl.backend import OpenClBackend
from unladen.backends.reference.kv import PagedKV
from unladen.backends.wgpu.backend import WgpuBackend
from unladen.graph.graph import KVSpec, Node, Value
from unladen.graph.ops import get_op
from unladen.graph.ops.base import EPS32, RefContext, act_block
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.linear import product_error

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


class Rounding:
    """A norm and products of its rows, of a step at random."""

    def __init__(self, rng: Rng, formats: Sequence[str], n_tokens: int, *, act: bool = False,
                 n_out: Sequence[int] = (5, 37, 64)) -> None:
        m = self.m = Maker(rng, n_tokens)
        n_in = int(rng.choice([256, 512, 1280]))
        sizes = [int(rng.choice(n_out)) for _ in formats]
        self.x = m.input("T", n_in)
        m.g.layer, m.g.n_layers = 0, 1
        (self.y,) = m.g.add("rms_norm", (self.x,), name="norm", attrs={"eps": 1e-5},
                            weights={"w": m.weight("w", n_in)})
        weights = {f"w{i}": m.weight(f"w{i}", sizes[0] if act else n, n_in, quant=quant)
                   for i, (n, quant) in enumerate(zip(sizes, formats, strict=True))}
        self.outputs = m.g.add("linear", (self.y,), name="linear", weights=weights,
                               attrs={"act": "silu"} if act else {})
        self.graph = m.g.finish(**{f"y{i}": y for i, y in enumerate(self.outputs)})

    def on_paper(self) -> tuple[Sequence[Array], Sequence[Array]]:
        """The products, and their bounds: that of a product of exact rows, and what a wrong row
        adds to it."""
        norm, linear = self.graph.nodes
        numbers = {w.name: quants.dequantize(w.quant, self.m.weights[w.name], w.shape).astype(float)
                   for node in (norm, linear) for w in node.weights.values()}
        x = [self.m.inputs[self.x].astype(np.float64)]
        of_norm = RefContext(self.m.batch, {"w": numbers["w"]})
        rows = get_op("rms_norm").reference(norm, x, of_norm)
        (off,) = get_op("rms_norm").error_bound(norm, x, of_norm)
        blocks = {role: act_block(quants.get(w.quant).block_size)
                  for role, w in linear.weights.items()}
        ctx = RefContext(self.m.batch, {role: numbers[w.name] for role, w in
                                        linear.weights.items()}, None, blocks)
        op = get_op("linear")
        wanted, bounds = op.reference(linear, rows, ctx), op.error_bound(linear, rows, ctx)
        more = [off @ np.abs(numbers[f"w{i}"]).T for i in range(len(linear.weights))]
        if "act" in linear.attrs:
            gate, up = (rows[0] @ numbers[f"w{i}"].T for i in range(2))
            errors = [product_error(rows[0], numbers[f"w{i}"], blocks[f"w{i}"]) + more[i]
                      for i in range(2)]
            return wanted, [1.001 * GatedUnit.of(linear).error(gate, up, *errors)
                            + EPS32 * np.abs(wanted[0])]
        return wanted, [1.001 * b + m for b, m in zip(bounds, more, strict=True)]

    def on(self, backend: Backend, *, joined: bool) -> tuple[Sequence[str], Sequence[Array]]:
        """The kernels that run, and the products."""
        m, options = self.m, BackendOptions()
        device = running.device_of(backend)
        norm, linear = self.graph.nodes
        stored = backend.stored_bytes(device, (norm, linear), frozenset({self.y}), m.limits,
                                      options)
        assert stored.keys() == {self.y}
        taken = stored if joined else {}
        offsets, n_bytes = {}, 0
        for value in (self.x, self.y, *self.outputs):
            offsets[value] = n_bytes
            n_bytes += -(-taken.get(value, 4 * m.limits.count(value.shape)) // 256) * 256
        scratch = backend.scratch_bytes(device, linear, m.limits, options)
        arena = backend.alloc(device, n_bytes + scratch + 64, "arena")
        backend.write(arena, np.full(arena.nbytes, 0xff, np.uint8))
        backend.write(arena, running.as_bytes(m.inputs[self.x]), offsets[self.x])
        placed = {}
        for weight in (*norm.weights.values(), *linear.weights.values()):
            quant = backend.weight_format(device, linear, weight)
            assert quant is not None
            raw = quants.convert(weight.quant, quant, m.weights[weight.name].reshape(-1),
                                 weight.shape)
            buffer = backend.alloc(device, raw.nbytes + 32, "weights")
            backend.write(buffer, raw, 32)
            placed[weight.name] = Placed(weight, buffer, 32, quant)
        program = backend.compile(Segment(device, (norm, linear), arena, offsets, {},
                                          (n_bytes, scratch), placed, {}, {}, m.limits, m.batch,
                                          options, taken))
        backend.run(program)
        found = []
        for value in self.outputs:
            shape = m.shape(value.shape)
            raw = backend.read(arena, 4 * int(np.prod(shape)), offsets[value]).copy()
            found.append(raw.view(np.float32).reshape(shape))
        n = m.batch.n_tokens
        size = Size(n, m.batch.n_outputs, 1, 1, n == m.batch.n_seqs, frozenset())
        return [d.kernel for d in program.lowered.dispatches  # type: ignore[attr-defined]
                if d.grid(size) is not None], found


@pytest.fixture(params=["emulator", "opencl", "wgpu"])
def rounding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A backend whose kernels round activations."""
    if request.param == "emulator":
        return EmulatorBackend(FEATURES)
    monkeypatch.setenv(f"UNLADEN_{request.param.upper()}_FEATURES", "int_dot")
    found: Backend = {"opencl": OpenClBackend, "wgpu": WgpuBackend}[request.param]()
    if not found.devices():
        pytest.skip(found.why_none())
    return found


@pytest.mark.parametrize(("formats", "act"), [
    (["Q4_K", "Q4_K", "Q6_K"], False), (["Q8_0"], False), (["Q4_0", "Q4_0"], True)])
def test_rows_are_rounded_once(rounding: Backend, formats: Sequence[str], act: bool, rng: Rng
                               ) -> None:
    for n_tokens in (1, 3, 20):
        case = Rounding(rng, formats, n_tokens, act=act)
        wanted, bounds = case.on_paper()
        for joined in (True, False):
            kernels, found = case.on(rounding, joined=joined)
            assert (kernels[0] == "norm_quantize") == joined
            assert ("quantize" in kernels) == (not joined and n_tokens > FEW_ROWS)
            for y, truth, bound in zip(found, wanted, bounds, strict=True):
                assert np.all(np.abs(y - truth) <= bound), (joined, np.abs(y - truth).max())


@pytest.mark.parametrize(("formats", "act"), [(["Q4_K", "Q6_K"], False), (["Q8_0"] * 2, True)])
@pytest.mark.parametrize("n_out", [(64,), (5, 64)])
def test_only_few_rows_are_rounded(formats: Sequence[str], act: bool, n_out: Sequence[int], rng: Rng
                                   ) -> None:
    """Where many rows are multiplied as float16, they stay float32 until then."""
    backend = EmulatorBackend(FEATURES | {"mma", "wgmma"})
    for n_tokens in (1, FEW_ROWS, 20):
        case = Rounding(rng, formats, n_tokens, act=act, n_out=n_out)
        wanted, bounds = case.on_paper()
        for joined in (True, False):
            kernels, found = case.on(backend, joined=joined)
            is_few = n_tokens <= FEW_ROWS
            assert kernels[0] == ("norm_quantize" if joined and is_few else "rms_norm")
            assert kernels.count("norm_quantize") <= 1 and not (
                joined and is_few and "quantize" in kernels)
            for y, truth, bound in zip(found, wanted, bounds, strict=True):
                assert np.all(np.abs(y - truth) <= bound), (joined, np.abs(y - truth).max())


def test_what_is_not_rounded(rng: Rng) -> None:
    """Rows that something else reads, that are added, or whose reader takes float32."""
    case = Rounding(rng, ["Q8_0"], 2)
    norm, linear = case.graph.nodes
    y = case.y
    assert rounded((norm, linear), {y}, lambda n: True) == [y]
    assert not rounded((norm, linear), set(), lambda n: True)
    assert not rounded((norm, linear), {y}, lambda n: False)
    reader = Node("scale", "scale", (y,), (Value("s", y.shape),), {}, {}, None, 0)
    assert not rounded((norm, linear, reader), {y}, lambda n: True)
    added = Node("linear", "linear", (y, y), linear.outputs, linear.weights, {"residual": True},
                 None, 0)
    assert not rounded((norm, added), {y}, lambda n: True)
    heads = Node("norm", "rms_norm", norm.inputs, norm.outputs, {}, {"eps": 1e-5, "group": 64},
                 None, 0)
    assert not rounded((heads, linear), {y}, lambda n: True)
