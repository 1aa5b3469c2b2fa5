"""Blocks in tiles: a permutation of bytes, with words where a matrix unit's lanes take them."""

from __future__ import annotations

import numpy as np
import pytest

from unladen import quants
from unladen._native import quants as native
from unladen.errors import InvalidArgument, UnsupportedQuant
from unladen.quants import tiles
from unladen.quants.base import Quant

Rng = np.random.Generator
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
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


class Scattered(Quant):
    """A format whose words of codes have bytes of two blocks: no native code packs it."""

    name, type_id, block_size, block_bytes = "SCATTERED", 9999, 4, 5
    planes = ((1, 2),)


def rows_of(kind: type[Quant], n_tiles: int, rng: Rng, n_rows: int = 48) -> Bytes:
    layout = tiles.layout_of(kind)
    size = (n_rows, n_tiles * layout.n_blocks * kind.block_bytes)
    return rng.integers(0, 256, size, dtype=np.uint8)


def packer_of(kind: type[Quant], rows: Bytes) -> tiles.Packer:
    shape = rows.shape[0], rows.shape[1] // kind.block_bytes * kind.block_size
    assert tiles.fits(kind, shape)
    return tiles.Packer.of(kind, shape)


def by_numpy(kind: type[Quant], rows: Bytes) -> Bytes:
    return tiles.layout_of(kind).pack(rows.reshape(len(rows), -1, kind.block_bytes))


@pytest.mark.parametrize("kind", [*map(quants.get, TILED), Scattered], ids=lambda kind: kind.name)
@pytest.mark.parametrize("n_tiles", [1, 3, 7])
def test_any_tiles_are_those_of_numpy(kind: type[Quant], n_tiles: int, rng: Rng) -> None:
    """All at once, by threads, or some of them alone, of rows that are apart or not."""
    padded = rows_of(kind, n_tiles + 1, rng)
    packer = packer_of(kind, padded)
    for rows in (padded, padded[:, packer.tile_bytes // tiles.ROWS:]):
        packer, wanted = packer_of(kind, rows), by_numpy(kind, np.ascontiguousarray(rows))
        assert (packer.words is None) == (kind is Scattered)
        for n_threads in (1, 3):
            made = np.empty(rows.size, np.uint8)
            packer.pack(rows, made, n_threads=n_threads)
            np.testing.assert_array_equal(made, wanted)
        for _ in range(8):
            first, last = sorted(rng.integers(0, rows.size // packer.tile_bytes + 1, 2))
            some = slice(first * packer.tile_bytes, last * packer.tile_bytes)
            made = np.full(rows.size, 0x5a, np.uint8)
            packer.pack(rows, made[some], some.start)
            np.testing.assert_array_equal(made[some], wanted[some])
            assert (made[:some.start] == 0x5a).all() and (made[some.stop:] == 0x5a).all()


def test_threads_share_many_tiles(rng: Rng) -> None:
    kind = quants.get("Q6_K")
    rows = rows_of(kind, 16, rng, 512)
    made = np.empty(rows.size, np.uint8)
    packer_of(kind, rows).pack(rows, made, n_threads=4)
    np.testing.assert_array_equal(made, by_numpy(kind, rows))


@pytest.mark.parametrize("kind", [quants.get("Q4_K"), Scattered], ids=lambda kind: kind.name)
def test_sizes_that_do_not_agree(kind: type[Quant], rng: Rng) -> None:
    rows = rows_of(kind, 3, rng)
    packer = packer_of(kind, rows)
    tile, n = packer.tile_bytes, rows.size
    for wrong in (rows[:-1], rows[:, :-1], rows[:32], rows.reshape(-1)):
        with pytest.raises(InvalidArgument, match="isn't the blocks"):
            packer.pack(wrong, np.empty(tile, np.uint8))
    for size, start in ((tile - 1, 0), (tile, 1), (n + tile, 0), (tile, n), (tile, -tile),
                        (2 * tile, n - tile)):
        with pytest.raises(InvalidArgument, match="whole tiles"):
            packer.pack(rows, np.empty(size, np.uint8), start)
    for size in (n - 1, n + 1, 0):
        with pytest.raises(InvalidArgument, match="is the file complete"):
            packer.rows(np.empty(size, np.uint8))
    with pytest.raises(InvalidArgument, match="is the file complete"):
        tiles.pack(kind, rows.reshape(-1)[:-tile], (48, rows.shape[1] // kind.block_bytes
                                                    * kind.block_size))


WORDS = list(range(0, 32, 4))


@pytest.mark.parametrize(("change", "error", "why"), [
    ({"words": [*WORDS[:-1], 33]}, ValueError, "a word is outside"),
    ({"words": [*WORDS[:-1], 2 ** 32 - 1]}, ValueError, "a word is outside"),
    ({"words": [*WORDS[:-1], -1]}, TypeError, "incompatible"),
    ({"words": WORDS[:-1]}, ValueError, "whole"), ({"words": []}, ValueError, "whole"),
    ({"words": [*WORDS, *WORDS]}, ValueError, "these tiles"),
    ({"aside": [33, 34]}, ValueError, "outside of its block"),
    ({"aside": [32]}, ValueError, "whole"), ({"aside": [32] * 40}, ValueError, "whole"),
    ({"block_bytes": 0}, ValueError, "whole"), ({"block_bytes": 2 ** 63}, ValueError, "whole"),
    ({"rows": (17, 68)}, ValueError, "whole sixteens"), ({"rows": (16, 67)}, ValueError, "whole"),
    ({"out": 543}, ValueError, "these tiles"),
    ({"out": 3 * 544}, ValueError, "these tiles"), ({"first": 2}, ValueError, "these tiles"),
    ({"first": 2 ** 64 - 1}, ValueError, "these tiles"), ({"first": -1}, TypeError, "incompatible"),
    ({"order": "F"}, ValueError, "one after another")])
def test_native_code_checks_its_description(change: dict[str, object], error: type[Exception],
                                            why: str) -> None:
    """It never reads or writes where it mustn't, whoever calls it."""
    given: dict[str, object] = {"words": WORDS, "aside": [32, 33], "block_bytes": 34, "first": 0,
                                "rows": (16, 68), "out": 544, "order": "C", **change}
    rows = np.zeros(given.pop("rows"), np.uint8, given.pop("order"))  # type: ignore[call-overload]
    out = np.zeros(given.pop("out"), np.uint8)  # type: ignore[call-overload]
    with pytest.raises(error, match=why):
        native.pack_tiles(rows, out, n_threads=2, **given)  # type: ignore[arg-type]
