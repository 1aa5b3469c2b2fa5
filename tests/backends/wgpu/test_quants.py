"""Each block format's WGSL against its NumPy truth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.wgpu.single import Case, all_quants, random_blocks, tokens_batch

from unladen.quants import dequantize
from unladen.types import Limits

Rng = np.random.Generator
N_ROWS, N_COLS = 24, 512


@pytest.mark.parametrize("quant", all_quants())
def test_dequantize(rng: Rng, quant: str) -> None:
    """The rows of an embedding are decoded one by one; a product of a float32 with whole numbers of
    few bits is rounded once, where the format adds a minimum twice."""
    limits = Limits(64, 1, 1, 2, 2)
    batch = tokens_batch(rng, limits, [(0, 40)])
    batch.tokens[:40] = rng.integers(0, N_ROWS, 40)
    raw = random_blocks(rng, quant, (N_ROWS, N_COLS))
    case = Case("embed", ["tokens"], batch, limits, {"w": (quant, (N_ROWS, N_COLS), raw)})
    (mine,), _ = case.run("wgpu:0")
    truth = dequantize(quant, raw, (N_ROWS, N_COLS))[batch.tokens[:40]].astype(np.float64)
    size = np.abs(truth).reshape(40, -1, 32).max(axis=-1).repeat(32, axis=-1)
    assert np.all(np.abs(mine - truth) <= 2.0 ** -23 * size)


@pytest.mark.parametrize("n_tokens", [1, 3, 30])
@pytest.mark.parametrize("quant", all_quants())
def test_products(rng: Rng, quant: str, n_tokens: int) -> None:
    limits = Limits(40, 1, 1, 2, 2)
    batch = tokens_batch(rng, limits, [(0, n_tokens)])
    shape = (70, N_COLS)
    Case("linear", [rng.normal(size=(n_tokens, N_COLS)).astype(np.float32)], batch, limits,
         {"w0": (quant, shape, random_blocks(rng, quant, shape))}).check("wgpu:0")
