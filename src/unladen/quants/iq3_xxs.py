"""IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, scaled, words32
from unladen.quants._codebooks import entries, even_signs
from unladen.quants.base import Blocks, Floats, Quant


class IQ3_XXS(Quant):
    """Eight runs of 32 weights: eight grid entries of 4, their signs, and a scale of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      64    indices into the grid
    66     32    a uint32 per run: four sign codes of 7 bits, lowest first, and ``scale`` in
                 the top 4
    ====== ===== ==========================================================================

    A sign code stands for eight signs: its seven bits, and an eighth that makes the number of minus
    signs even.
    """

    name, type_id, block_size, block_bytes = "IQ3_XXS", 18, 256, 98
    fields16, fields32 = (0,), tuple(range(66, 98, 4))

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale + 1/2) / 2 * sign * grid``."""
        rest = words32(blocks[:, 66:])
        codes = (rest[..., None] >> np.array([0, 7, 14, 21], np.uint32)) & 127
        scales = (rest >> 28).astype(np.float32) + np.float32(0.5)
        q = entries("iq3xxs", blocks[:, 2:66], even_signs()[codes.reshape(-1, 32)])
        return scaled(half(blocks, 0) * scales * np.float32(0.5), q)
