"""IQ3_S: 256 weights in 110 bytes, 3.4375 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants._codebooks import entries
from unladen.quants.base import Blocks, Floats, Quant


class IQ3_S(Quant):
    """Eight runs of 32 weights: eight grid entries of 4, their signs, and a scale of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      64    low 8 bits of the indices into the grid
    66     8     bit 8 of the indices, eight a byte, lowest first
    74     32    signs, a bit for each weight
    106    4     ``scale`` of 4 bits, two a byte, low nibble first
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "IQ3_S", 21, 256, 110
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (2 * scale + 1) * sign * grid``."""
        high = planes(blocks[:, 66:74], 1, 1).reshape(-1, 64).astype(np.uint16)
        scales = planes(blocks[:, 106:], 1, 4).reshape(-1, 8) * np.uint8(2) + np.uint8(1)
        q = entries("iq3s", blocks[:, 2:66] | (high << 8), blocks[:, 74:106])
        return scaled(half(blocks, 0) * scales, q)
