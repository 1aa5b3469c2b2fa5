"""What isn't finite stays so where rows are rounded to int8: a model with such numbers must fail
instead of answering."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.opening import opened
from backends._gpu.rounding import Rounding
from cases import running
from cases.base import Case, Maker
from emulator.backend import EmulatorBackend, EmulatorProgram
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering._matrix import FEW_ROWS
from unladen.backends.base import Backend, BackendOptions

Rng = np.random.Generator
VALUES = (np.nan, np.inf, -np.inf)


@pytest.fixture(params=["emulator int_dot subgroups", "emulator int_dot subgroups mma",
                        "emulator int_dot subgroups mma wgmma", "opencl int_dot", "wgpu int_dot"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return opened(request.param, monkeypatch)


def features_of(backend: Backend) -> frozenset[str]:
    """Those of the emulator."""
    return backend.target.features if isinstance(backend, EmulatorBackend) else frozenset()


def product(quant: str, n_tokens: int, rng: Rng) -> Case:
    m = Maker(rng, n_tokens)
    return m.case("linear", m.input("T", 512), weights={"w0": m.weight("w0", 48, 512, quant=quant)})


@pytest.mark.parametrize("quant", ["Q8_0", "Q4_0", "Q4_K", "Q6_K", "IQ4_NL"])
@pytest.mark.parametrize("n_tokens", [2, 20])
def test_products(backend: Backend, quant: str, n_tokens: int, rng: Rng) -> None:
    """Few rows and many; the other rows stay as they are."""
    if n_tokens > FEW_ROWS and "wgmma" in features_of(backend):
        n_tokens = 70  # so many that four warps multiply together
    case = product(quant, n_tokens, rng)
    bench = running.Bench(backend, case)
    assert "int_dot" in backend.variant(bench.device, case.node, BackendOptions())
    (good,), (x,) = bench.run(), case.inputs.values()
    assert np.isfinite(good).all()
    for value in VALUES:
        before, at = x[1].copy(), int(rng.integers(512))
        x[1, at] = value
        (y,) = bench.run()
        x[1] = before
        assert not np.isfinite(y[1]).any(), value
        np.testing.assert_array_equal(np.delete(y, 1, axis=0), np.delete(good, 1, axis=0))
    if n_tokens > FEW_ROWS and "mma" in features_of(backend):
        assert isinstance(bench.program, EmulatorProgram)
        ran = [d for d in bench.program.ran.values() if d.kernel in c_texts.NVIDIA_ONLY]
        assert ran and any(d.constants["WGMMA"] for d in ran if d.kernel == "matmul_mma") == (
            "wgmma" in features_of(backend))


@pytest.mark.parametrize("n_tokens", [2, 20])
def test_products_of_norms(backend: Backend, n_tokens: int, rng: Rng) -> None:
    for value, n_out in zip(VALUES, (48, 37, 64), strict=True):
        case = Rounding(rng, ["Q6_K"], n_tokens, n_out=[n_out])
        case.m.inputs[case.x][1, int(rng.integers(256))] = value
        kernels, (y,) = case.on(backend, joined=True)
        has_tiles, many = n_out % 16 == 0, n_tokens > FEW_ROWS
        by_units = many and has_tiles and "mma" in features_of(backend)
        assert ("matvec_mma" in kernels) == by_units
        # Where four warps multiply, many rows for weights without tiles are rounded apart.
        apart = many and not has_tiles and "wgmma" in features_of(backend)
        assert ("norm_quantize" in kernels) != apart
        assert not np.isfinite(y[1]).any() and np.isfinite(np.delete(y, 1, axis=0)).all(), value
