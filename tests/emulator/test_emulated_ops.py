"""Every case of every op on the emulator: the C family's kernels, thread by thread."""

from __future__ import annotations

from itertools import chain, islice

import numpy as np
import pytest

import cases
from cases import moe, running
from cases.base import Case, Maker
from emulator import test_nvidia
from emulator.backend import FEATURES, EmulatorBackend, EmulatorProgram
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends.base import BackendOptions

Rng = np.random.Generator
RAN_BY = "emulator"
PLAIN: frozenset[str] = frozenset()
MATRICES = FEATURES | {"mma"}
FOUR_WARPS = MATRICES | {"wgmma"}
PARTS = {"attention": 4, "linear": 4, "moe": 4}
"""Tests that an op's cases are divided into, since their kernels take long to compile: make test
runs the first part, make long the others."""
OPS = sorted(op for op, how in registry().items() if all(map(c_texts.has_kernel, how.kernels)))


def for_matrix_units(op: str, rng: Rng) -> Case:
    """A case of a size that matrix units take."""
    if op == "linear":
        return test_nvidia.product("Q8_0", 70, rng)
    if op == "moe":
        return moe.one(rng, 40, 4, 2, "silu", "Q8_0", "Q8_0", twists=("gate_up",),
                       sizes=(256, 256))
    return test_nvidia.attention(rng, 21, 4, 1, 64, 64)


@pytest.mark.parametrize(("op", "part", "features"), [
    pytest.param(op, slice(i, None, n), features,
                 id="-".join([op, f"{i + 1}of{n}", *sorted(features)]),
                 marks=[pytest.mark.long] if i else [])
    for op in OPS for n in [PARTS.get(op, 1)] for i in range(n)
    for features in (PLAIN, FEATURES, MATRICES, FOUR_WARPS)
    if not features or features & registry()[op].features
    if features <= FEATURES or features - FEATURES <= registry()[op].features])
def test_within_the_bound(op: str, part: slice, features: frozenset[str], rng: Rng,
                          monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread reads or writes what it may not, in any order; and results are right. Kernels ran
    that use the features."""
    # Wide tiles, too, for which these products are too small.
    monkeypatch.setattr("unladen.backends._gpu.lowering._products.ENOUGH_TILES", 2)
    backend, ran, n = EmulatorBackend(features), list[Dispatch](), 0
    more = [for_matrix_units(op, rng)] if features - FEATURES else []
    for case in chain(islice(cases.registry()[op](rng), part.start, part.stop, part.step), more):
        if backend.supports(backend.target.device, case.node):
            bench = running.Bench(backend, case)
            running.check(case, bench.run(), precise=False, what="emulator")
            if case.kv is not None:
                for mine, wanted in zip(bench.cache(), running.on_paper(case)[2], strict=True):
                    np.testing.assert_array_equal(mine, wanted, err_msg=case.name)
            if case.slots is not None:
                running.check_slots(case, bench.slots(), "emulator")
            assert isinstance(bench.program, EmulatorProgram)
            ran += bench.program.ran.values()
            n += 1
    assert n > len(more)
    by_units = [d for d in ran if d.kernel in c_texts.NVIDIA_ONLY]
    assert "mma" not in features or by_units
    # A product's tile has TN rows of x; other kernels have the constant, too, and don't use it.
    assert "wgmma" not in features or any(
        d.constants["WGMMA"] for d in by_units if "TN" in d.constants)


@pytest.mark.parametrize("op", ["rms_norm", "argmax", "rope"])
def test_no_order_of_threads_changes_a_bit(op: str, rng: Rng) -> None:
    for case in islice(cases.registry()[op](rng), 3):
        bench = running.Bench(EmulatorBackend(), case)
        first = bench.run()
        for _ in range(3):
            for a, b in zip(first, bench.run(), strict=True):
                assert np.array_equal(a, b, equal_nan=True), case.name


def product(quant: str, n_tokens: int, rng: Rng) -> Case:
    m = Maker(rng, n_tokens)
    size = quants.get(quant).block_size
    n = int(rng.integers(33, 96)) if size == 1 else size * int(rng.integers(1, 3))
    return m.case("linear", m.input("T", n), weights={"w0": m.weight("w0", 21, n, quant=quant)})


@pytest.mark.parametrize("quant", [q for q in sorted(quants.registry()) if c_texts.has_format(q)])
def test_formats(quant: str, rng: Rng) -> None:
    """Rows, and products of one row, of a few and of many; with integer products where the format
    has codes."""
    m = Maker(rng, 5)
    n = 77 if quants.get(quant).block_size == 1 else quants.get(quant).block_size * 2
    m.batch.tokens[:5] = rng.integers(0, 9, 5)
    case = m.case("embed", m.g.inputs["tokens"], weights={"w": m.weight("w", 9, n, quant=quant)})
    (y,) = running.Bench(EmulatorBackend(), case).run()
    truth = quants.dequantize(quant, m.weights["w"], (9, n))[m.batch.tokens[:5]].astype(float)
    assert np.all(np.abs(y - truth) <= 4 * 2.0 ** -24 * np.abs(truth).max())
    for n_tokens in (1, 3, 17):
        case = product(quant, n_tokens, rng)
        options = BackendOptions(precise=True)
        running.check(case, running.Bench(EmulatorBackend(), case, options).run(), precise=True,
                      what=quant)
        if c_texts.has_codes(quant):
            backend = EmulatorBackend(frozenset({"int_dot"}))
            running.check(case, running.Bench(backend, case).run(), precise=False, what=quant)
