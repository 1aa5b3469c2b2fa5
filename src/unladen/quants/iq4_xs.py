"""IQ4_XS: 256 weights in 136 bytes, 4.25 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants._codebooks import levels
from unladen.quants.base import Blocks, Floats, Quant


class IQ4_XS(Quant):
    """Eight runs of 32 indices into 16 uneven levels, each with a signed scale of 6 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      2     uint16: high 2 bits of each ``scale``, lowest first
    4      4     low 4 bits of ``scale``, two a byte, low nibble first
    8      128   ``q``, 32 weights in 16 bytes: byte j holds q[j] low, q[j + 16] high
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "IQ4_XS", 23, 256, 136
    planes = ((8, 128),)
    fields16 = (0, 2)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale[i // 32] - 32) * level[q[i]]``."""
        high = planes(blocks[:, 2:4], 1, 2).reshape(-1, 8)
        low = planes(blocks[:, 4:8], 1, 4).reshape(-1, 8)
        scales = (low | (high << 4)).view(np.int8) - np.int8(32)
        return scaled(half(blocks, 0) * scales, levels("iq4nl")[planes(blocks[:, 8:], 16, 4)])
