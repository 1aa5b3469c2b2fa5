"""Encoding equals the `gguf` package's bit for bit, and a round trip stays within its bound."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from unladen import quants
from unladen.errors import InvalidArgument

Floats = npt.NDArray[np.float32]
FLOATS = ["F32", "F16", "BF16"]
BLOCKS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
HALF = 2.0**-11  # unit roundoff of float16


def by_package(name: str, values: Floats) -> npt.NDArray[np.uint8]:
    gguf = pytest.importorskip("gguf")
    with np.errstate(all="ignore"):
        encoded = gguf.quants.quantize(values, gguf.GGMLQuantizationType[name])
    return np.asarray(encoded).view(np.uint8)


def hard_values(rng: np.random.Generator) -> Floats:
    """Rows of 64 numbers: all magnitudes, ties, zeros of both signs, equal numbers."""
    rows = rng.standard_normal((2000, 64)) * 10.0 ** rng.integers(-6, 5, (2000, 1))
    rows[:200] = np.where(rng.random((200, 64)) < 0.5, rows[:200], 0)
    # The largest magnitude makes the step a power of two, so its halves are exact ties.
    for row, top in zip(rows[200:800], np.resize([127, 8, 16, 15, 31, -8, -16], 600), strict=True):
        row[:] = rng.integers(-2 * abs(top), 2 * abs(top) + 1, 64) / 2
        row[[0, 32]] = top
    rows[800:900] = rows[800:900, :1]
    rows[900] = 0
    rows[901] = -0.0
    rows[902:910] *= 0
    return rows.astype(np.float32)


@pytest.mark.parametrize("name", FLOATS + BLOCKS)
def test_same_as_the_gguf_package(name: str, rng: np.random.Generator) -> None:
    values = hard_values(rng)
    encoded = quants.quantize(name, values)
    assert encoded.shape == (len(values), quants.get(name).row_bytes(64))
    assert np.array_equal(encoded, by_package(name, values))


@pytest.mark.parametrize("name", FLOATS)
def test_any_bits_at_all(name: str, rng: np.random.Generator) -> None:
    special = np.array([0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7F7FFFFF,
                        0x80000000, 1, 0x3F808000, 0x3F818000], np.uint32)
    bits = np.concatenate([special, rng.integers(0, 1 << 32, 100_000, np.uint32)])
    values = bits.view(np.float32)[None]
    assert np.array_equal(quants.quantize(name, values), by_package(name, values))


def largest_error(name: str, values: Floats) -> npt.NDArray[np.float64]:
    """The most that a round trip of float32 [n, 32] may change each number.

    The bound is half a step for rounding (a whole step at one end of Q4_0 and Q5_0, whose range
    isn't symmetric), plus float16's error of the scale times the largest q, plus float16's error of
    the minimum. The scales are normal float16 here. Float32 arithmetic adds a few units of 2**-24
    of the largest number."""
    x = values.astype(np.float64)
    top = np.abs(x).max(axis=1, keepdims=True)
    low = x.min(axis=1, keepdims=True)
    span = x.max(axis=1, keepdims=True) - low
    if name == "F32":
        return np.zeros_like(x)
    bound = {
        "F16": np.abs(x) * HALF,
        "BF16": np.abs(x) * 2.0**-8,
        "Q8_0": top / 127 * 0.5 + top * HALF,
        "Q4_0": top / 8 + top * HALF,
        "Q5_0": top / 16 + top * HALF,
        "Q4_1": span / 15 * 0.5 + (span + np.abs(low)) * HALF,
        "Q5_1": span / 31 * 0.5 + (span + np.abs(low)) * HALF,
    }[name] + top * 2.0**-22
    return np.broadcast_to(bound, x.shape)


@pytest.mark.parametrize("name", FLOATS + BLOCKS)
def test_round_trip(name: str, rng: np.random.Generator) -> None:
    scale = 10.0 ** rng.uniform(0, 3, (3000, 1))
    values = (rng.standard_normal((3000, 32)) * scale).astype(np.float32)
    values[0] = 0
    again = quants.dequantize(name, quants.quantize(name, values), values.shape)
    error = np.abs(again.astype(np.float64) - values)
    bound = largest_error(name, values)
    assert (error <= bound).all()
    if name != "F32":
        # A bound that no error comes close to would prove nothing.
        assert (error[1:] > 0.5 * bound[1:]).any()


@pytest.mark.parametrize("name", FLOATS + BLOCKS)
def test_second_trip_changes_nothing(name: str, rng: np.random.Generator) -> None:
    values = rng.standard_normal((3000, 32)).astype(np.float32)
    encoded = quants.quantize(name, values)
    again = quants.quantize(name, quants.dequantize(name, encoded, values.shape))
    assert np.array_equal(again, encoded)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_what_no_scale_can_hold(name: str, bad: float) -> None:
    values = np.zeros((3, 32), np.float32)
    values[1, 7] = bad
    with pytest.raises(InvalidArgument, match="float16"):
        quants.quantize(name, values)


@pytest.mark.parametrize("name", BLOCKS)
def test_scales_without_reciprocal_are_zeros(name: str) -> None:
    values = np.full((1, 32), 1e-44, np.float32)
    values[0, 3] = -3e-44
    assert not quants.dequantize(name, quants.quantize(name, values), values.shape).any()


@pytest.mark.parametrize("name", FLOATS + BLOCKS)
def test_no_rows(name: str) -> None:
    quant = quants.get(name)
    encoded = quants.quantize(name, np.empty((2, 0, 64), np.float32))
    assert encoded.shape == (2, 0, quant.row_bytes(64))
