"""Products that rotate queries and keys and store keys and values in the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from backends._gpu.opening import opened
from backends._gpu.storing import Storing
from cases import running
from cases.base import Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen.backends._gpu.joining import turned, written
from unladen.backends._gpu.lowering._matrix import FEW_ROWS
from unladen.backends.base import Backend, BackendOptions
from unladen.graph.graph import KVSpec, Node, Value

Rng = np.random.Generator


@pytest.fixture(params=["emulator", "emulator int_dot subgroups mma", "opencl", "wgpu"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return opened(request.param, monkeypatch)


def check(case: Storing, backend: Backend, kernels: Sequence[str]) -> None:
    assert case.check(backend, joined=True) == kernels
    assert case.check(backend, joined=False)[-1] == "kv_write"


def in_tiles(backend: Backend) -> bool:
    """Whether ``backend`` holds weights of F16 in tiles."""
    return isinstance(backend, EmulatorBackend) and "mma" in backend.target.features


@pytest.mark.parametrize("style", ["norm", "neox", ""])
def test_one_dispatch(backend: Backend, style: str, rng: Rng) -> None:
    """A decode step has one. With matrix units weights of F16 are in tiles of rows in sequence, so
    pairs half a rotation apart are rotated later."""
    apart = style == "neox" and in_tiles(backend)
    for n_tokens, biases in ((1, True), (3, False), (FEW_ROWS, True)):
        rotated = (0, 32) if n_tokens == 1 else (4, 16)
        kv_types = ("F16", "F16") if n_tokens == 1 else ("F32", "F16")
        case = Storing(rng, style, n_tokens, formats=["F16"] * 3, biases=biases, rotated=rotated,
                       kv_types=kv_types)
        by_units = in_tiles(backend) and n_tokens > 4
        check(case, backend, [*(["split_rows", "matvec_mma"] if by_units else ["matvec"]),
                              *(["kv_write"] if apart else [])])


@pytest.mark.parametrize("features", [{"mma"}, {"mma", "wgmma", "pdl"}])
@pytest.mark.parametrize("n_tokens", [6, 9, 16])
def test_more_tokens_by_matrix_units(features: set[str], n_tokens: int, rng: Rng) -> None:
    """One dispatch after that which splits x."""
    backend = EmulatorBackend(FEATURES | features)
    for style in ("norm", ""):
        case = Storing(rng, style, n_tokens, formats=["F16"] * 3, biases=n_tokens == 9)
        assert case.check(backend, joined=True) == ["split_rows", "matvec_mma"]


@pytest.mark.parametrize("features", [{"mma"}, {"mma", "wgmma", "pdl"}])
@pytest.mark.parametrize(("n_tokens", "quant"), [(9, "Q8_0"), (13, "Q8_0"), (40, "Q5_1")])
def test_more_tokens_that_are_rounded(features: set[str], n_tokens: int, quant: str, rng: Rng
                                      ) -> None:
    """What is stored is what other kernels rotate and store."""
    backend = EmulatorBackend(FEATURES | features)
    case = Storing(rng, "norm", n_tokens, formats=[quant] * 3, biases=n_tokens == 13,
                   kv_types=("F32", "F32"))
    (ran, *found), (apart, *wanted) = (
        case.on(backend, joined=joined, options=BackendOptions()) for joined in (True, False))
    assert ran == ["quantize", "matvec_mma"]
    assert apart == ["quantize", "matvec_mma", "rope", "kv_write"]
    for mine, other in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(mine.view(np.float32), other.view(np.float32), 1e-5, 1e-5)


def test_two_dispatches_of_two_formats(backend: Backend, rng: Rng) -> None:
    for formats in (["F32", "F32", "F16"], ["F16", "F32", "F32"], ["F32", "F16", "F32"]):
        check(Storing(rng, "norm", 2, formats=formats), backend, ["matvec"] * 2)


def test_many_tokens_and_blocks(backend: Backend, rng: Rng) -> None:
    """More tokens than a product takes at once, and rows that are stored in blocks."""
    ran, _, _ = Storing(rng, "norm", FEW_ROWS + 1, formats=["F32"] * 3).on(backend, joined=True)
    assert ran[-1] == "kv_write" and ran.count("kv_write") == 1
    case = Storing(rng, "neox", 2, formats=["F32"] * 3, kv_types=("Q8_0", "F16"))
    check(case, backend, ["matvec", "kv_write"])


def test_rotations_that_a_workgroup_does_not_hold(backend: Backend, rng: Rng) -> None:
    for style, rotated in (("neox", (2, 16)), ("neox", (0, 18)), ("norm", (1, 16))):
        case = Storing(rng, style, 1, formats=["F32"] * 3, rotated=rotated)
        check(case, backend, ["matvec", "kv_write"])


def test_what_is_not_joined(rng: Rng) -> None:
    """Values that something else reads or makes, and other nodes between."""
    case = Storing(rng, "norm", 2, formats=["F32"] * 3)
    product, rope, write = case.graph.nodes
    nodes, inner = (product, rope, write), {*case.made, case.keys}
    (found,) = written(nodes, inner)
    assert found.passed == set(case.made) and found.product is product
    assert not written(nodes[:2], inner) and not written(nodes[:1], inner)
    for value in inner:
        assert not written(nodes, inner - {value})
    y = Value("y", case.made[0].shape)
    for value in case.made:
        reader = Node("scale", "scale", (value,), (y,), {}, {}, None, 0)
        assert turned((*nodes, reader), inner) and not written((*nodes, reader), inner)
    between = Node("scale", "scale", (case.x,), (y,), {}, {}, None, 0)
    assert not written((product, between, rope, write), inner)
    other = Node("qkv", "linear", (case.x,), (*case.made, y), product.weights, {}, None, 0)
    assert not written((other, rope, write), inner)
    other = Node("qkv", "linear", (case.x,), (*case.made[:2], y), product.weights, {}, None, 0)
    assert not written((other, rope, write), inner)


@pytest.mark.parametrize(("dim", "attrs"), [(64, {}), (20, {}), (64, {"softcap": 20.0})])
def test_a_key_beyond_the_cache_is_not_overlooked(
        backend: Backend, dim: int, attrs: Mapping[str, float], rng: Rng) -> None:
    """A product stores it as NaN, and attention of its head is NaN, however small its score."""
    for history in (0, 1500):
        m = Maker(rng, 1, kv_types=("F16", "F16"), max_history=history)
        spec = KVSpec(0, 2, dim, dim)
        k, v = m.cache(spec)
        p, size = int(m.batch.index[0]), m.layout.block_tokens
        block = int(m.batch.block_table[0, m.layout.first_column + p // size])
        rows = k.view(np.float16).reshape(-1, dim)
        rows[(2 * block + 1) * size + p % size, 3] = np.nan
        case = m.case("attention", m.input("T", 4 * dim), state=spec, kv=(k, v),
                      attrs={"n_heads": 4, "scale": dim ** -0.5, **attrs})
        (y,) = running.Bench(backend, case).run()
        heads = y.reshape(4, dim)
        assert np.isnan(heads[2:]).all() and np.isfinite(heads[:2]).all()


def test_a_large_key_is_stored_as_no_number(backend: Backend, rng: Rng) -> None:
    case = Storing(rng, "norm", 2, formats=["F32"] * 3, kv_types=("F16", "F16"))
    case.m.inputs[case.x][0] *= 2.0 ** 16
    with np.errstate(over="ignore"):
        wanted = case.on_paper()[1][0].view(np.float16)
    keys = case.on(backend, joined=True)[2][0].view(np.float16)
    assert np.isnan(keys).any() and not np.isinf(keys).any()
    np.testing.assert_array_equal(keys, wanted)
