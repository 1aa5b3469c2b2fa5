"""Native dequantization gives the bits of the NumPy truth, at every instruction-set level."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import machines as cpu
from formats import native_formats
from unladen import quants

every_level = pytest.mark.parametrize("level", cpu.levels())


def assert_same(name: str, raw: npt.NDArray[np.uint8], level: str) -> None:
    quant = quants.get(name)
    n = raw.size // quant.block_bytes * quant.block_size
    with np.errstate(over="ignore", invalid="ignore"):  # any bytes: infinities and NaNs are normal
        expected = quants.dequantize(name, raw, (n,))
    actual = cpu.dequantize(name, raw, n, level)
    assert actual.dtype == np.float32
    assert actual.shape == (n,)
    # A NaN's payload is the processor's affair; zeros keep their sign.
    both_nan = np.isnan(actual) & np.isnan(expected)
    different = np.flatnonzero((actual.view(np.uint32) != expected.view(np.uint32)) & ~both_nan)
    assert different.size == 0, (
        f"{different.size} of {n} differ, first at {different[0]}: "
        f"{actual[different[0]]!r}, not {expected[different[0]]!r}")


@every_level
@pytest.mark.parametrize("name", native_formats())
def test_random_blocks(name: str, level: str, rng: np.random.Generator) -> None:
    for n_blocks in [*range(1, 10), 1000]:
        # From an odd address: a row of blocks may start anywhere.
        n_bytes = n_blocks * quants.get(name).block_bytes
        assert_same(name, rng.integers(0, 256, 1 + n_bytes, np.uint8)[1:], level)


@every_level
@pytest.mark.parametrize("name", ["F16", "BF16", "I16"])
def test_every_number_of_16_bits(name: str, level: str) -> None:
    assert_same(name, np.arange(1 << 16, dtype=np.uint16).view(np.uint8), level)


@every_level
@pytest.mark.parametrize("name", sorted(
    name for name, quant in quants.registry().items() if quant.fields16 and quant.block_size > 1))
def test_scales_all_over_float16(name: str, level: str, rng: np.random.Generator) -> None:
    quant = quants.get(name)
    for at in quant.fields16:
        blocks = rng.integers(0, 256, (1 << 12, quant.block_bytes), np.uint8)
        halves = np.arange(0, 1 << 16, 1 << 4, dtype=np.uint16)
        halves += rng.integers(0, 1 << 4, halves.size, np.uint16)
        blocks[:, at:at + 2] = halves[:, None].view(np.uint8)
        assert_same(name, blocks.reshape(-1), level)
