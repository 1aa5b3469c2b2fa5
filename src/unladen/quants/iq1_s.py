"""IQ1_S: 256 weights in 50 bytes, 1.5625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, words16
from unladen.quants._codebooks import grid
from unladen.quants.base import Blocks, Floats, Quant


class IQ1_S(Quant):
    """Eight runs of 32 weights: four grid entries of 8, a shift, and a scale of 3 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      32    low 8 bits of the indices into the grid
    34     16    a uint16 per run: the high 3 bits of its four indices (lowest first),
                 ``scale`` in bits 12..14, and the sign of ``shift`` = 1/8 in bit 15
    ====== ===== ==========================================================================

    The grid's values are -1, 0 and 1.
    """

    name, type_id, block_size, block_bytes = "IQ1_S", 19, 256, 50
    fields16 = (0, *range(34, 50, 2))

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (2 * scale + 1) * (grid + shift)``."""
        n = len(blocks)
        rest = words16(blocks[:, 34:])
        high = (rest[..., None] >> np.array([0, 3, 6, 9], np.uint16)) & 7
        index = blocks[:, 2:34] | (high << 8).reshape(n, 32)
        scales = half(blocks, 0) * (2 * ((rest >> 12) & 7) + 1)
        shift = np.where(rest >> 15, np.float32(-0.125), np.float32(0.125))
        weights: Floats = grid("iq1s")[index].reshape(n, 8, 32) + shift[..., None]
        weights *= scales[..., None]
        return weights.reshape(n, 256)
