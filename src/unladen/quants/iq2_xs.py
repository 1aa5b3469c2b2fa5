"""IQ2_XS: 256 weights in 74 bytes, 2.3125 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled, words16
from unladen.quants._codebooks import entries, even_signs
from unladen.quants.base import Blocks, Floats, Quant


class IQ2_XS(Quant):
    """Sixteen runs of 16 weights: two grid entries of 8, their signs, and a scale of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      64    32 of uint16: index into the grid in 9 bits, sign code in the top 7
    66     8     ``scale`` of 4 bits, two a byte, low nibble first
    ====== ===== ==========================================================================

    A sign code stands for eight signs: its seven bits, and an eighth that makes the number of minus
    signs even.
    """

    name, type_id, block_size, block_bytes = "IQ2_XS", 17, 256, 74
    fields16 = tuple(range(0, 66, 2))

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale + 1/2) / 4 * sign * grid``."""
        codes = words16(blocks[:, 2:66])
        scales = planes(blocks[:, 66:], 1, 4).reshape(-1, 16) + np.float32(0.5)
        q = entries("iq2xs", codes & 511, even_signs()[codes >> 9])
        return scaled(half(blocks, 0) * scales * np.float32(0.25), q)
