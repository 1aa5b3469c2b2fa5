"""Nodes that one dispatch computes together give what each of them gives alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from backends._gpu.opening import opened
from backends._gpu.rounding import Rounding
from backends._gpu.storing import Joined
from cases.base import Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen.backends._gpu.joining import rounded, turned
from unladen.backends._gpu.lowering._products import FEW_ROWS
from unladen.backends.base import Backend
from unladen.graph.graph import KVSpec, Node, Value

Rng = np.random.Generator


@pytest.fixture(params=["emulator", "opencl", "wgpu"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return opened(request.param, monkeypatch)


class Turning(Joined):
    """A rotation of queries and keys, and the write of these keys, of a step at random."""

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
        self.queries, keys = self.turned
        self.inner, self.passed, self.unstored = frozenset({keys}), set(), {keys}
        self.graph = m.g.finish(y0=self.queries)
        self.kv = m.cache(self.spec)


@pytest.mark.parametrize("style", ["norm", "neox"])
@pytest.mark.parametrize("kv_types", [("F32", "F32"), ("F16", "F16"), ("Q8_0", "F16")])
def test_keys_are_rotated_into_the_cache(backend: Backend, style: str, kv_types: tuple[str, str],
                                         rng: Rng) -> None:
    for n_tokens in (1, 2, 35):
        case = Turning(rng, style, kv_types, n_tokens)
        assert case.check(backend, joined=True) == ["kv_write"]
        assert case.check(backend, joined=False) == ["rope", "kv_write"]


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


@pytest.fixture(params=["emulator int_dot subgroups", "opencl int_dot", "wgpu int_dot"])
def rounding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A backend whose kernels round activations."""
    return opened(request.param, monkeypatch)


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
@pytest.mark.parametrize(("n_out", "most"), [((64,), 64), ((5,), FEW_ROWS)])
def test_only_few_rows_are_rounded(formats: Sequence[str], act: bool, n_out: Sequence[int],
                                   most: int, rng: Rng) -> None:
    """Where many rows are multiplied as float16, they stay float32 until then. There are more of
    them where all weights are in tiles."""
    backend = EmulatorBackend(FEATURES | {"mma", "wgmma"})
    for n_tokens in (1, most, most + 3):
        case = Rounding(rng, formats, n_tokens, act=act, n_out=n_out)
        wanted, bounds = case.on_paper()
        for joined in (True, False):
            kernels, found = case.on(backend, joined=joined)
            is_few = n_tokens <= most
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
