"""Written blocks equal llama.cpp's bit for bit, on every level, and are no worse than rounding."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from quantizing.models import Floats, importance, rows
from unladen import quants
from unladen._native import cpu as native
from unladen.quantizing.mixes import WRITABLE

ANSWERS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "llama_cpp.json").read_text(encoding="utf-8"))
FORMATS = sorted(ANSWERS["blocks"])
SIMPLE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
LEVELS = native.levels()
each_format = pytest.mark.parametrize("name", FORMATS)


def quantized(name: str, x: Floats, weights: Floats | None = None, level: str = LEVELS[-1]
              ) -> npt.NDArray[np.uint8]:
    blocks = native.quantize(name, x, weights, quants.get(name).row_bytes(x.shape[1]), level)
    assert blocks is not None
    return blocks


def error(name: str, x: Floats, blocks: npt.NDArray[np.uint8], weights: Floats | None = None
          ) -> float:
    difference = quants.dequantize(name, blocks, x.shape).astype(np.float64) - x
    return float((difference**2 * (1 if weights is None else weights)).sum())


def test_what_can_be_written() -> None:
    known = {name for name in quants.registry() if native.can_quantize(name, LEVELS[0])}
    assert known == set(WRITABLE)


@pytest.mark.parametrize("level", LEVELS)
@each_format
def test_bit_for_bit_llama_cpp(name: str, level: str) -> None:
    rng = np.random.Generator(np.random.PCG64(ANSWERS["seed"]))
    n_rows, n_cols = ANSWERS["rows"]
    x, weights = rows(rng, n_rows, n_cols), importance(rng, n_cols)
    hashes = [hashlib.sha256(quantized(name, x, w, level).tobytes()).hexdigest()
              for w in (None, weights)]
    assert hashes == ANSWERS["blocks"][name]


@each_format
def test_levels_agree(name: str, rng: np.random.Generator) -> None:
    """All levels write the same blocks for fresh numbers and any number of blocks; lanes after the
    last block are idle."""
    for n_rows in (16, int(rng.integers(17, 40))):
        n_cols = 256 * int(rng.integers(2, 5))
        x = rows(rng, n_rows, n_cols)
        for weights in (None, importance(rng, n_cols)):
            first, *others = (quantized(name, x, weights, level).tobytes() for level in LEVELS)
            assert all(other == first for other in others)


@each_format
def test_rows_stand_alone(name: str, rng: np.random.Generator) -> None:
    x, weights = rows(rng, 19, 512), importance(rng, 512)
    whole = quantized(name, x, weights).reshape(19, -1)
    for i in rng.integers(0, 19, 5):
        np.testing.assert_array_equal(quantized(name, x[i:i + 1], weights), whole[i])


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("level", LEVELS)
def test_as_defined(name: str, level: str, rng: np.random.Generator) -> None:
    """Blocks equal those of the formats that NumPy writes, too."""
    x = rows(rng, 32, 512)
    x[1] = 0  # the scale of a block of -0.0 may be either zero
    expected = quants.quantize(name, x).tobytes()
    assert quantized(name, x, None, level).tobytes() == expected


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("level", LEVELS)
def test_numbers_as_defined(name: str, level: str, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((3, 77)) * 10.0 ** rng.integers(-9, 4, (3, 1))).astype(np.float32)
    expected = quants.quantize(name, x).tobytes()
    assert quantized(name, x, None, level).tobytes() == expected


def rounded(x: Floats, run: int, top: int) -> float:
    """The squared error of rounding each run to 0 .. top between its least and its largest number,
    with exact scales."""
    y = x.astype(np.float64).reshape(-1, run)
    low, high = np.minimum(y.min(axis=1, keepdims=True), 0), y.max(axis=1, keepdims=True)
    step = (high - low) / top
    return float((((np.rint((y - low) / step) * step + low) - y) ** 2).sum())


@pytest.mark.parametrize(("name", "run", "top"), [("Q2_K", 16, 3), ("Q4_K", 32, 15),
                                                  ("Q5_K", 32, 31)])
def test_search_beats_rounding(name: str, run: int, top: int, rng: np.random.Generator) -> None:
    """The search beats rounding, although its scales have few bits and rounding's are exact."""
    x = rng.standard_normal((64, 1024), np.float32)
    assert error(name, x, quantized(name, x)) < rounded(x, run, top)


@pytest.mark.parametrize("name", [n for n in FORMATS if n not in ("Q8_0", "MXFP4")])
def test_importance_pays(name: str, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((64, 1024)) * 0.02).astype(np.float32)
    weights = (rng.random(1024) ** 4 + 1e-3).astype(np.float32)
    with_it = error(name, x, quantized(name, x, weights), weights)
    assert with_it < error(name, x, quantized(name, x), weights)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [n for n in FORMATS if n != "MXFP4"])
def test_scales_beyond_float16(name: str, level: str) -> None:
    x = np.ones((17, 256), np.float32)
    x[16, 255] = 3e38
    assert native.quantize(name, x, None, quants.get(name).row_bytes(256), level) is None


@pytest.mark.parametrize("level", LEVELS)
def test_numbers_beyond_float16(level: str) -> None:
    x = np.ones((1, 77), np.float32)
    x[0, 76] = 65520
    assert native.quantize("F16", x, None, 154, level) is None
    assert native.quantize("BF16", x, None, 154, level) is not None


def test_wrong_arguments() -> None:
    x = np.ones((1, 256), np.float32)
    with pytest.raises(ValueError, match="no kernel writes IQ2_S"):
        native.quantize("IQ2_S", x, None, 82, LEVELS[-1])
    with pytest.raises(ValueError, match="one importance"):
        native.quantize("Q4_K", x, x[0, :32], 144, LEVELS[-1])
