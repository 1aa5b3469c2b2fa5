"""y = w x^T for every block format and instruction-set level, against NumPy in float64.

Integer kernels see activations rounded to int8, so they are judged twice: closely against the same
rounding done here, and against the activations themselves within half a step of each block.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import machines as cpu
from formats import native_formats
from unladen import quants
from unladen._native import cpu as here

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

EPS = 2.0**-24
"""Relative error of one float32 rounding."""

FLOAT_BLOCK = 16
"""What activations that stay float32 are packed in multiples of."""

# Formats that meet int8 activations, and how many of these share a scale. Levels of a machine that
# is emulated take the same ones as level portable does.
INT8_BLOCK = {name: block for name in sorted(quants.registry())
              if here.has_kernel("portable", name)
              and (block := here.packed_block("portable", name, False)) != FLOAT_BLOCK}

MIN_AT = {"Q4_1": 2, "Q5_1": 2, "Q2_K": 82, "Q4_K": 2, "Q5_K": 2}
"""Where a block's (scale of the) minimums lies: w = scale * q + what this multiplies."""

INTERLEAVED_AT = ("avx512", "vbmi")
ROW_BY_ROW = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
                        "TQ1_0"})
"""Levels whose kernels want weight rows interleaved, and formats that they don't."""

ROW_GRANULE, ACT_GRANULE = 16, 8
"""Multiples of every level's granules."""

every_level = pytest.mark.parametrize("level", cpu.levels())
every_type = pytest.mark.parametrize("name", native_formats())


@functools.cache
def pool(name: str, seed: int) -> Bytes:
    """128 random blocks with weights nearest to 1 in size: a random float16 may be anything."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    quant = quants.get(name)
    blocks = rng.integers(0, 256, (4096, quant.block_bytes), np.uint8)
    values = quants.dequantize(name, blocks.reshape(-1), (len(blocks), quant.block_size))
    largest = np.abs(values).max(axis=1)
    usable = np.isfinite(largest) & (largest > 0)
    away = np.where(usable, np.abs(np.log(np.where(usable, largest, 1))), np.inf)
    return blocks[np.argsort(away)[:128]]


def weights(name: str, n: int, n_cols: int, rng: np.random.Generator) -> Bytes:
    """Raw bytes of n rows of n_cols random weights."""
    blocks = pool(name, int(rng.integers(4)))
    return blocks[rng.integers(0, len(blocks), n * n_cols // quants.get(name).block_size)].ravel()


def magnitudes(name: str, raw: Bytes, shape: tuple[int, int]) -> Array:
    """|w|, or |scale * q| + |min| where that is what is rounded on the way to w."""
    w = quants.dequantize(name, raw, shape).astype(np.float64)
    if name not in MIN_AT:
        return np.abs(w)
    blocks = raw.reshape(-1, quants.get(name).block_bytes).copy()
    blocks[:, MIN_AT[name]:MIN_AT[name] + 2] = 0
    product = quants.dequantize(name, blocks.ravel(), shape).astype(np.float64)
    return np.abs(product) + np.abs(w - product)


def rounded(x: Floats, block: int) -> tuple[Array, Array]:
    """x as d * q with q = rint(y), y = x * (127 / max |x|), ties to even, and d = max |x| / 127 *
    (y . q) / (q . q); and max |x| / 127 of each block."""
    parts = x.reshape(len(x), -1, block)
    largest = np.abs(parts).max(axis=2, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    y = (parts * inverse).astype(np.float64)
    q = np.rint(y)
    square = (q * q).sum(axis=2, keepdims=True)
    correction = np.divide((y * q).sum(axis=2, keepdims=True), square, out=np.ones_like(square),
                           where=square > 0)
    step = (largest / np.float32(127)).astype(np.float64)
    return (q * step * correction).reshape(x.shape), step[..., 0]


def check(name: str, level: str, n: int, n_cols: int, n_rows: int, precise: bool,
          rng: np.random.Generator) -> None:
    raw = weights(name, n, n_cols, rng)
    w = quants.dequantize(name, raw, (n, n_cols)).astype(np.float64)
    size = magnitudes(name, raw, (n, n_cols))
    x = (rng.standard_normal((n_rows, n_cols)) * np.exp(rng.standard_normal((n_rows, 1)))
         ).astype(np.float32)
    y = cpu.matmul(name, raw, n, n_cols, x, level, precise, (0, n), (0, n_rows))
    assert y.dtype == np.float32
    assert y.shape == (n_rows, n)
    what = f"{name} {level} [{n}, {n_cols}] x {n_rows}, precise={precise}"
    if precise or name not in INT8_BLOCK:
        # At most one rounding per term in the sum, and a few in w and at the end.
        bound = (n_cols + 32) * EPS * (np.abs(x.astype(np.float64)) @ size.T)
        assert_within(y, x.astype(np.float64) @ w.T, bound, what)
        return
    block = INT8_BLOCK[name]
    seen, step = rounded(x, block)
    # Integers are exact; at most two roundings per 16 terms, one per four of a block in its scale,
    # and a few in w and at the end.
    bound = (n_cols / 8 + block / 4 + 32) * EPS * (np.abs(seen) @ size.T)
    assert_within(y, seen @ w.T, bound, what)
    # Rounding, done in float32, moves an activation by half a step, and the scale of least squares
    # no block by more than that in the sum of squares.
    length = np.sqrt((w.reshape(n, -1, block)**2).sum(axis=2))
    assert_within(y, x.astype(np.float64) @ w.T,
                  bound + (0.5 + 127 * 4 * EPS) * np.sqrt(block) * (step @ length.T), what)


def assert_within(y: Floats, expected: Array, bound: Array, what: str) -> None:
    excess = np.abs(y - expected) - bound
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), y.shape)
    assert np.all(excess <= 0), (
        f"{what}: y[{worst}] = {y[worst]!r}, not {expected[worst]!r} +- {bound[worst]!r}")


def column_counts(name: str) -> list[int]:
    size = quants.get(name).block_size
    return [1, 7, 160, 172, 531] if size == 1 else [size, 2 * size, 5 * size, 800 // size * size
                                                    or 3 * size]


def granule(name: str) -> int:
    """Row lengths are multiples of this many weights, and of what shares an activation's scale."""
    return max(INT8_BLOCK.get(name, 256), quants.get(name).block_size)


@every_level
@every_type
def test_products(name: str, level: str, rng: np.random.Generator) -> None:
    for n_cols in column_counts(name):
        for n, n_rows in [(1, 1), (16, 2), (5, 3), (37, 4), (17, 5), (32, 8), (19, 21)]:
            check(name, level, n, n_cols, n_rows, False, rng)


@every_level
@pytest.mark.parametrize("name", sorted(INT8_BLOCK))
def test_precise_products(name: str, level: str, rng: np.random.Generator) -> None:
    for n, n_rows in [(1, 1), (18, 3), (33, 9)]:
        check(name, level, n, 512 + quants.get(name).block_size, n_rows, True, rng)


@every_level
@pytest.mark.parametrize("name", ["F16", "Q4_0", "Q4_K"])
def test_many_activation_rows(name: str, level: str, rng: np.random.Generator) -> None:
    check(name, level, 21, 256, 1100, False, rng)
    check(name, level, 2, 256, 4096, False, rng)


@every_level
@pytest.mark.parametrize("name", sorted(INT8_BLOCK))
def test_interleaving_changes_no_bit(name: str, level: str, rng: np.random.Generator) -> None:
    n = 53
    for n_cols, n_rows in itertools.product((1024, 1024 - granule(name)), (1, 2, 3, 5, 8, 19)):
        raw = weights(name, n, n_cols, rng)
        x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
        whole = (0, n), (0, n_rows)
        if level not in INTERLEAVED_AT or name in ROW_BY_ROW:
            with pytest.raises(ValueError, match="not interleaved"):
                cpu.matmul(name, raw, n, n_cols, x, level, False, *whole, True)
            return
        expected = cpu.matmul(name, raw, n, n_cols, x, level, False, *whole)
        y = cpu.matmul(name, raw, n, n_cols, x, level, False, *whole, True)
        assert np.array_equal(y.view(np.uint32), expected.view(np.uint32)), n_rows
        # Whichever activation rows there are, a row's sums are the same.
        alone = [cpu.matmul(name, raw, n, n_cols, row[None], level, False, (0, n), (0, 1), True)
                 for row in x]
        assert np.array_equal(y.view(np.uint32), np.concatenate(alone).view(np.uint32)), n_rows


@pytest.mark.parametrize("level", [x for x in cpu.levels() if x in INTERLEAVED_AT])
@pytest.mark.parametrize("name", ["Q4_0", "IQ4_NL"])
def test_scales_of_twelve_bits(name: str, level: str, rng: np.random.Generator) -> None:
    """Those of a sixteen's rows within two octaves, as far apart as that allows or farther, of both
    signs, none at all, and such as nobody should write, in this and that row."""
    n, n_cols = 16 * 9, 512
    raw = weights(name, n, n_cols, rng)
    blocks = raw.reshape(n, n_cols // 32, -1)
    scales = np.ascontiguousarray(rng.uniform(0.07, 0.24, blocks.shape[:2]).astype(np.float16))
    scales *= rng.choice(np.array([1, -1], np.float16), scales.shape)
    bits = scales.view(np.uint16)
    least, (row, block) = 0x2c00, (rng.integers(16), rng.integers(1, n_cols // 32))
    bits[:, 0] = least
    for sixteen, wanted in enumerate([least + 2047, least + 2047 | 0x8000, least + 2048, 0x8000, 1,
                                      0x7c00, 0x7e01, 0xffff]):
        bits[16 * sixteen + row, block] = wanted
    bits[-16, :] = 0xffff
    blocks[:, :, :2] = scales.view(np.uint8).reshape(*scales.shape, 2)
    for n_rows in (1, 2, 5, 8, 19):
        x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
        expected, y = (cpu.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows), moved)
                       for moved in (False, True))
        assert np.array_equal(y.view(np.uint32), expected.view(np.uint32)), n_rows


@pytest.fixture
def reads_as_before() -> Iterator[None]:
    before = here.read_like("other")
    yield
    here.read_like(before)


@pytest.mark.usefixtures("reads_as_before")
@pytest.mark.parametrize("level", here.levels())
@pytest.mark.parametrize("name", ["F32", "F16", "IQ3_S", *sorted(INT8_BLOCK)])
def test_reading_changes_no_bit(name: str, level: str, rng: np.random.Generator) -> None:
    n = 53
    moves = name in INT8_BLOCK and level in INTERLEAVED_AT and name not in ROW_BY_ROW
    for n_cols, n_rows in itertools.product((1024, 1280 - granule(name)), (1, 2, 5, 8)):
        raw = weights(name, n, n_cols, rng)
        x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
        answers = []
        for processor in ("other", "zen3", "zen4", "zen5", "intel"):
            here.read_like(processor)
            answers.append(here.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows),
                                       moves).tobytes())
        assert len(set(answers)) == 1, (n_cols, n_rows)


@every_level
@pytest.mark.parametrize("name", ["F32", "F16", "IQ3_S", *sorted(INT8_BLOCK)])
def test_tiling_changes_no_bit(name: str, level: str, rng: np.random.Generator) -> None:
    n, n_cols = 83, 512
    raw = weights(name, n, n_cols, rng)
    for n_rows in (1, 4, 13, 45):
        x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
        whole = cpu.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows))
        assert not np.isnan(whole).any()
        for _ in range(4):
            n0 = int(rng.integers(0, n)) // ROW_GRANULE * ROW_GRANULE
            n1 = int(rng.integers(n0, n)) + 1
            t0 = int(rng.integers(0, n_rows)) // ACT_GRANULE * ACT_GRANULE
            t1 = min(n_rows, t0 + ACT_GRANULE * int(rng.integers(1, 5)))
            part = cpu.matmul(name, raw, n, n_cols, x, level, False, (n0, n1), (t0, t1))
            expected = np.full_like(whole, np.nan)
            expected[t0:t1, n0:n1] = whole[t0:t1, n0:n1]
            np.testing.assert_array_equal(part.view(np.uint32), expected.view(np.uint32),
                                          err_msg=f"{(n0, n1)}, {(t0, t1)} of {n_rows}")


@every_level
@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "F16"])
@pytest.mark.parametrize("n_rows", [2, 11])
def test_what_is_not_finite_stays_so(name: str, level: str, n_rows: int,
                                     rng: np.random.Generator) -> None:
    n, n_cols = 20, 512
    raw = weights(name, n, n_cols, rng)
    x = rng.standard_normal((n_rows, n_cols)).astype(np.float32)
    good = cpu.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows))
    for value in (np.nan, np.inf, -np.inf):
        x[1, int(rng.integers(n_cols))] = value
        y = cpu.matmul(name, raw, n, n_cols, x, level, False, (0, n), (0, n_rows))
        assert not np.isfinite(y[1]).any()
        np.testing.assert_array_equal(np.delete(y, 1, axis=0), np.delete(good, 1, axis=0))


@every_level
@pytest.mark.parametrize("name", sorted(INT8_BLOCK))
@pytest.mark.parametrize("n_rows", [1, 3, 6])
def test_zeros_and_extremes(name: str, level: str, n_rows: int) -> None:
    """All zero, and every code and activation at its end, where 16-bit sums would overflow."""
    n, n_cols = 18, 512
    quant = quants.get(name)
    whole = ((0, n), (0, n_rows))
    for byte in (0x00, 0x7f, 0x80, 0xff):
        blocks = np.full((n * n_cols // quant.block_size, quant.block_bytes), byte, np.uint8)
        for at in quant.fields16:
            blocks[:, at:at + 2] = np.frombuffer(b"\x00\x3c", np.uint8)  # float16 1.0
        if name == "MXFP4":
            blocks[:, 0] = 127
        raw = blocks.ravel()
        w = quants.dequantize(name, raw, (n, n_cols)).astype(np.float64)
        size = magnitudes(name, raw, (n, n_cols))
        for value in (0.0, -127.0, 127.0):
            x = np.full((n_rows, n_cols), value, np.float32)
            y = cpu.matmul(name, raw, n, n_cols, x, level, False, *whole)
            expected = x.astype(np.float64) @ w.T
            bound = (n_cols / 8 + 32) * EPS * (np.abs(x) @ size.T)
            assert_within(y, expected, bound, f"{name} {level} {byte:#x} times {value}")
