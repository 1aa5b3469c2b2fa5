"""IQ2_S: 256 weights in 82 bytes, 2.5625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants._codebooks import entries
from unladen.quants.base import Blocks, Floats, Quant


class IQ2_S(Quant):
    """Sixteen runs of 16 weights: two grid entries of 8, their signs, and a scale of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      32    low 8 bits of the indices into the grid
    34     32    signs, a bit for each weight
    66     8     high 2 bits of the indices, four a byte, lowest first
    74     8     ``scale`` of 4 bits, two a byte, low nibble first
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "IQ2_S", 22, 256, 82
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale + 1/2) / 4 * sign * grid``."""
        high = planes(blocks[:, 66:74], 1, 2).reshape(-1, 32).astype(np.uint16)
        scales = planes(blocks[:, 74:], 1, 4).reshape(-1, 16) + np.float32(0.5)
        q = entries("iq2s", blocks[:, 2:34] | (high << 8), blocks[:, 34:66])
        return scaled(half(blocks, 0) * scales * np.float32(0.25), q)
