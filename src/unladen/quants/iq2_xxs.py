"""IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, scaled, words32
from unladen.quants._codebooks import entries, even_signs
from unladen.quants.base import Blocks, Floats, Quant


class IQ2_XXS(Quant):
    """Eight runs of 32 weights: four grid entries of 8, their signs, and a scale of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      64    8 bytes per run: four indices into the grid, then a uint32 with four sign
                 codes of 7 bits (lowest first) and ``scale`` in the top 4
    ====== ===== ==========================================================================

    A sign code stands for eight signs: its seven bits, and an eighth that makes the number of minus
    signs even.
    """

    name, type_id, block_size, block_bytes = "IQ2_XXS", 16, 256, 66
    fields16, fields32 = (0,), tuple(range(6, 66, 8))

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale + 1/2) / 4 * sign * grid``."""
        n = len(blocks)
        index = blocks[:, 2:].reshape(n, 8, 8)[..., :4].reshape(n, 32)
        rest = words32(blocks[:, 2:])[:, 1::2]
        codes = (rest[..., None] >> np.array([0, 7, 14, 21], np.uint32)) & 127
        scales = (rest >> 28).astype(np.float32) + np.float32(0.5)
        signs = even_signs()[codes.reshape(n, 32)]
        return scaled(half(blocks, 0) * scales * np.float32(0.25), entries("iq2xxs", index, signs))
