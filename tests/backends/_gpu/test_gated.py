"""Gated products of weights in tiles: few rows, a workgroup for 32 columns of the result."""

from __future__ import annotations

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.rounding import Feeding
from backends.nvrtc import ptx
from cases import running
from cases.base import Maker
from emulator.backend import FEATURES, EmulatorBackend
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering._matrix import FEW_ROWS

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}


def in_bands(quant: str, n_tokens: int, n_out: int, features: frozenset[str], rng: Rng
             ) -> running.Bench:
    m = Maker(rng, n_tokens)
    n_in = int(rng.choice([256, 512, 2048]))
    weights = {f"w{i}": m.weight(f"w{i}", n_out, n_in, quant=quant) for i in range(2)}
    biases = {f"b{i}": m.weight(f"b{i}", n_out) for i in range(int(rng.integers(3)))}
    case = m.case("linear", m.input("T", n_in), weights={**weights, **biases},
                  attrs={"act": str(rng.choice(["silu", "gelu"]))})
    return running.Bench(EmulatorBackend(features), case)


@pytest.mark.parametrize("quant", ["Q4_K", "Q6_K", "Q8_0", "F16"])
def test_results(quant: str, rng: Rng) -> None:
    for n_tokens in (1, 3, FEW_ROWS):
        bench = in_bands(quant, n_tokens, 64, MATRICES | {"pdl"}, rng)
        assert "gated_rows" in kernels(bench)
        running.check(bench.case, bench.run(), precise=False, what="emulator")


def test_an_odd_number_of_tiles(rng: Rng) -> None:
    bench = in_bands("Q8_0", 3, 48, MATRICES, rng)
    assert "gated_rows" not in kernels(bench)
    running.check(bench.case, bench.run(), precise=False, what="emulator")


def kernels(bench: running.Bench) -> set[str]:
    return {d.kernel for d in bench.program.lowered.dispatches}  # type: ignore[attr-defined]


@pytest.mark.parametrize("features", [MATRICES, MATRICES | {"pdl"}, MATRICES | {"wgmma"}])
@pytest.mark.parametrize(("formats", "is_exact"), [
    (("Q4_K", "Q8_0"), True), (("Q8_0", "Q4_K"), False), (("F16", "Q6_K"), True)])
def test_rows_are_rounded_where_they_are_made(features: frozenset[str], formats: tuple[str, str],
                                              *, is_exact: bool, rng: Rng) -> None:
    """With a dispatch less, to the same codes. Sums of columns are added in another order, for
    formats whose codes are shifted."""
    for n_tokens in (1, 5, FEW_ROWS, 20):
        case = Feeding(rng, formats, n_tokens)
        joined, (mine,) = case.on(EmulatorBackend(features), joined=True)
        apart, (wanted,) = case.on(EmulatorBackend(features), joined=False)
        if n_tokens > FEW_ROWS:
            assert joined == apart
        else:
            before = ["quantize"] if formats[0] != "F16" else []
            assert joined == [*before, "gated_rows", "matvec"]
            assert apart == [*before, "gated_rows", "quantize", "matvec"]
        if is_exact:
            np.testing.assert_array_equal(mine, wanted)
        else:
            np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def rounded_once(rng: Rng) -> Dispatch:
    backend = EmulatedBackend(c_texts, features=MATRICES | {"pdl"})
    program, _, _ = Feeding(rng, ("Q4_K", "Q4_K"), 1).compiled(backend, joined=True)
    assert isinstance(program, EmulatedProgram)
    return next(d for d in program.lowered.dispatches if d.kernel == "gated_rows")


def test_both_weights_are_in_one_loop(nvrtc: Compiler, rng: Rng) -> None:
    """Four chunks of a tile for each subgroup, and one barrier."""
    text = ptx(nvrtc, rounded_once(rng))
    assert text.count("dp4a") == 4 * 8 and text.count("bar.sync") == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(value: float, rng: Rng) -> None:
    case = Feeding(rng, ("Q8_0", "Q8_0"), 3)
    case.m.inputs[case.x][1, 7] = value
    _, (y,) = case.on(EmulatorBackend(MATRICES), joined=True)
    assert not np.isfinite(y[1]).any() and np.isfinite(np.delete(y, 1, axis=0)).all()
