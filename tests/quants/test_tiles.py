"""Blocks in tiles: a permutation of bytes, with words where a matrix unit's lanes take them."""

from __future__ import annotations

import numpy as np
import pytest

from unladen import quants
from unladen.errors import UnsupportedQuant
from unladen.quants import tiles

Rng = np.random.Generator
SHAPE = (3, 32, 512)
TILED = [q for q in sorted(quants.registry()) if quants.in_tiles(q, SHAPE)]


def blocks(quant: str, rng: Rng) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], str]:
    name = quants.in_tiles(quant, SHAPE)
    assert name is not None
    n = 3 * 32 * quants.get(quant).row_bytes(512)
    return rng.integers(0, 256, n, dtype=np.uint8), name


@pytest.mark.parametrize("quant", TILED)
def test_tiles_are_a_permutation(quant: str, rng: Rng) -> None:
    raw, name = blocks(quant, rng)
    made = quants.convert(quant, name, raw, SHAPE)
    assert made.size == raw.size == 3 * 32 * quants.get(name).row_bytes(512)
    assert not np.array_equal(made, raw)
    assert np.array_equal(np.sort(made), np.sort(raw))
    assert np.array_equal(quants.convert(name, quant, made, SHAPE), raw)
    np.testing.assert_array_equal(quants.dequantize(name, made, SHAPE),
                                  quants.dequantize(quant, raw, SHAPE))


def test_a_lane_has_words_of_two_rows(rng: Rng) -> None:
    """The first chunk of Q4_K: lane 4 g + t has words t and t + 4 of rows g and g + 8."""
    raw, name = blocks("Q4_K", rng)
    words = quants.convert("Q4_K", name, raw, SHAPE)[:512].view(np.uint32).reshape(32, 4)
    rows = raw.reshape(-1, 2, 144)[:16, 0, 16:].copy().view(np.uint32)
    for lane in range(32):
        g, t = divmod(lane, 4)
        assert words[lane].tolist() == [rows[g, t], rows[g + 8, t], rows[g, t + 4],
                                        rows[g + 8, t + 4]]


def test_a_lane_has_four_neighbours_of_float16(rng: Rng) -> None:
    raw, name = blocks("F16", rng)
    words = quants.convert("F16", name, raw, SHAPE)[:512].view(np.uint32).reshape(32, 4)
    rows = raw.view(np.uint32).reshape(-1, 256)[:16]
    for lane in range(32):
        g, t = divmod(lane, 4)
        assert words[lane].tolist() == [rows[g, 2 * t], rows[g + 8, 2 * t], rows[g, 2 * t + 1],
                                        rows[g + 8, 2 * t + 1]]


@pytest.mark.parametrize(("quant", "shape"), [
    ("Q4_K", (37, 512)), ("Q4_0", (16, 96)), ("F16", (16, 48)), ("Q8_0", (512,)),
    ("F32", (16, 512)), ("IQ2_XXS", (16, 512))])
def test_what_has_no_tiles(quant: str, shape: tuple[int, ...]) -> None:
    assert quants.in_tiles(quant, shape) is None


def test_tiles_are_made_of_other_formats_too(rng: Rng) -> None:
    values = rng.standard_normal((16, 64)).astype(np.float32)
    raw = values.view(np.uint8).reshape(-1)
    made = quants.convert("F32", "Q8_0" + tiles.SUFFIX, raw, (16, 64))
    wanted = quants.dequantize("Q8_0", quants.quantize("Q8_0", values).reshape(-1), (16, 64))
    assert np.array_equal(quants.dequantize("Q8_0" + tiles.SUFFIX, made, (16, 64)), wanted)


def test_names() -> None:
    assert quants.file_format("Q4_K/tiles") == quants.file_format("Q4_K") == "Q4_K"
    assert quants.get("Q4_K/tiles").rows_together == tiles.ROWS
    assert quants.get("Q4_K/tiles") is quants.get("Q4_K/tiles")
    with pytest.raises(UnsupportedQuant, match="F32/tiles"):
        quants.get("F32/tiles")
