"""Wrong ways to round rows, and to split them, are told: of kernels, and of numbers alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends._gpu.rounded_rows import RUN, Coded, coded, odd_rows, only
from backends._gpu.test_rounded_rows import (
    attended,
    check_held,
    check_parts,
    gated,
    held,
    held_by_experts,
    normed,
    rounded,
)
from emulator.backend import FEATURES, EmulatorBackend
from emulator.mutants import Mutant, plant
from unladen.backends._gpu import c_texts

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}
WITHOUT, WITH = EmulatorBackend(frozenset({"int_dot"})), EmulatorBackend(MATRICES)


def rows(rng: Rng, backend: EmulatorBackend) -> None:
    found, x = rounded(backend, rng)
    found.check_exactly(x)


def apart(rng: Rng) -> None:
    """Rows whose runs have a scale each."""
    rows(rng, WITHOUT)


def together(rng: Rng) -> None:
    """Rows of which two runs have one scale."""
    rows(rng, WITH)


def of_norms(rng: Rng) -> None:
    found, y, off, _ = normed(WITH, rng)
    found.check_closely(y, off)


def of_units(rng: Rng) -> None:
    found, y = gated(WITH, rng)
    found.check_exactly(y)


def of_shares(rng: Rng) -> None:
    found, y = attended(WITH, rng, 96)
    found.check_exactly(y)


def of_products(rng: Rng) -> None:
    check_held(*held(WITHOUT, rng, 3))


def of_experts(rng: Rng) -> None:
    check_held(*held_by_experts(WITHOUT, rng))


def halves(rng: Rng) -> None:
    check_parts(MATRICES, "F16", 2, 20, rng, precise=False)


def brains(rng: Rng) -> None:
    check_parts(MATRICES, "BF16", 3, 20, rng, precise=False)


def columns(rng: Rng) -> None:
    check_parts(MATRICES | {"wgmma"}, "F16", 2, 20, rng, precise=False)


DRAWS = 20
"""How often rows are drawn until a fault is told: some of them are spoiled or zeros."""
ROUNDING, RUNS, SPLIT = "parts/rounding.h", "parts/runs.h", "split_rows.h"
UNIT, JOIN = "gated_rows.h", "attention_join.h"
FAULTS = {
    "a scale of 128": (apart, ROUNDING, "largest * (1.0f / 127.0f) :",
                       "largest * (1.0f / 128.0f) :"),
    "codes of 128": (apart, ROUNDING, "const float scale = largest * (1.0f / 127.0f)",
                     "const float scale = largest * (1.0f / 128.0f)"),
    "128 everywhere": (together, ROUNDING, "(1.0f / 127.0f)", "(1.0f / 128.0f)"),
    "cut, not rounded": (together, ROUNDING, "as_u32(x + 12582912.0f)", "u32_of((int)x)"),
    "rounded up": (apart, ROUNDING, "x + 12582912.0f", "x + 0.25f + 12582912.0f"),
    "codes of nothing": (apart, ROUNDING, "scale >= 1.1754944e-38f", "scale > 0.0f"),
    "NaN is no size": (apart, ROUNDING, "as_f32(max_u32(as_u32(a), as_u32(b)))", "max_f32(a, b)"),
    "an infinite scale": (apart, ROUNDING, "< 0x7f800000u", "<= 0x7f800000u"),
    "the next run's scale": (apart, RUNS, "LANE / (4u * RUNS) * (4u * RUNS) + i",
                             "(LANE / (4u * RUNS) ^ 1u) * (4u * RUNS) + i"),
    "one run's scale": (together, RUNS, "m < 4u * RUNS", "m < 4u"),
    "two runs' sums": (together, RUNS, "m < 4u; m", "m < 8u; m"),
    "no weights": (of_norms, "norm_quantize.h", "factor * weight[k]", "factor"),
    "128 after norms": (of_norms, ROUNDING, "(1.0f / 127.0f)", "(1.0f / 128.0f)"),
    "cut after norms": (of_norms, ROUNDING, "as_u32(x + 12582912.0f)", "u32_of((int)x)"),
    "128 in products": (of_products, ROUNDING, "(1.0f / 127.0f) :", "(1.0f / 128.0f) :"),
    "cut in products": (of_products, ROUNDING, "as_u32(x + 12582912.0f)", "u32_of((int)x)"),
    "the other half's scale": (of_products, "parts/dot_rows.h",
                               "F2(scale_of(largest_lo), scale_of(largest_hi))",
                               "F2(scale_of(largest_hi), scale_of(largest_lo))"),
    "three quarters of a block": (of_experts, "parts/coded_tile.h", "k = 1u; k < 4u",
                                  "k = 1u; k < 3u"),
    "one column's scale": (of_units, UNIT, "as_f32(subgroup_max_u32(as_u32(abs_f32(value))))",
                           "abs_f32(value)"),
    "half of a sum": (of_units, UNIT, "k < 16u", "k < 8u"),
    "128 for shares": (of_shares, JOIN, "F2(scale_of(largest)", "F2(largest / 128.0f"),
    "a run's scale for shares": (of_shares, JOIN, "k < 4u * RUNS", "k < 4u"),
    "a smaller exponent": (halves, SPLIT, "268u - exponent", "267u - exponent"),
    "a larger factor": (halves, SPLIT, "exponent - 14u", "exponent - 13u"),
    "one part twice": (halves, SPLIT, "*v = *v - F4(", "*v = *v - 0.0f * F4("),
    "halves of one word": (brains, SPLIT, "word & 0xffff0000u", "word << 16"),
    "the columns after them": (columns, SPLIT, "U4(a.y, b.y, c.y, d.y)", "U4(a.y, b.y, d.y, c.y)")}
"""By name: what is checked, the file, and what is replaced by what."""
KERNELS = ("quantize", "norm_quantize", "rms_norm", "gated_rows", "attention", "attention_wide",
           "attention_join", "split_rows", "matvec", "matmul", "moe_route", "moe_group", "moe_tile")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_kernel_is_told(name: str, tmp_path: Path, rng: Rng,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    check, file, old, new = FAULTS[name]
    only(WITH, monkeypatch, *KERNELS)
    text = (c_texts.FOLDER / file).read_text()
    assert old in text
    plant(Mutant(file, 0, old, text.replace(old, new)), tmp_path / "c")
    monkeypatch.setattr(c_texts, "FOLDER", tmp_path / "c")
    assert re.match(r"\s*(Arrays are not equal|scales|codes|sums)", told(check, rng))


def told(check: Callable[[Rng], None], rng: Rng) -> str:
    """What the check tells of any draw."""
    try:
        for _ in range(DRAWS):
            check(rng)
    except AssertionError as error:
        return str(error)
    return "nothing"


def of_128(x: Coded) -> Coded:
    return replace(x, scales=x.scales * np.float32(127 / 128))


def next_scales(x: Coded) -> Coded:
    return replace(x, scales=np.roll(x.scales, x.together, axis=1))


def next_codes(x: Coded) -> Coded:
    return replace(x, codes=np.roll(x.codes, 1, axis=1))


def smaller_codes(x: Coded) -> Coded:
    """As where numbers are cut instead of rounded."""
    return replace(x, codes=x.codes - np.sign(x.codes))


def next_sums(x: Coded) -> Coded:
    return replace(x, sums=np.roll(x.sums, 1, axis=1))


def sums_of_codes(x: Coded) -> Coded:
    rounded_numbers = x.codes * x.scales.repeat(RUN, axis=1)
    return replace(x, sums=rounded_numbers.reshape(len(x.codes), -1, RUN).sum(axis=-1))


def finite(x: Coded) -> Coded:
    return replace(x, scales=np.nan_to_num(x.scales))


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("wrong", [of_128, next_scales, next_codes, smaller_codes, next_sums,
                                   sums_of_codes, finite])
def test_wrong_rows_are_not_close(wrong: Callable[[Coded], Coded], together: int, rng: Rng) -> None:
    """What devices are compared with that divide and add in their own ways."""
    x = odd_rows(rng, 16, 128)
    with np.errstate(all="ignore"):
        right = coded(x, together)
        right.check_closely(x.astype(np.float64))
        with pytest.raises(AssertionError):
            wrong(right).check_closely(x.astype(np.float64))
