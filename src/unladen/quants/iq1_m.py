"""IQ1_M: 256 weights in 56 bytes, 1.75 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import planes, words16
from unladen.quants._codebooks import grid
from unladen.quants.base import Blocks, Floats, Quant


class IQ1_M(Quant):
    """Sixteen runs of 16 weights: two grid entries of 8 with a shift each, a scale of 3 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      32    low 8 bits of the indices into the grid
    32     16    a nibble per entry, low first: the high 3 bits of its index, and the sign
                 of its ``shift`` = 1/8
    48     8     four uint16: four ``scale`` each (lowest first), and in the top 4 bits a
                 quarter of ``d`` float16, the lowest quarter in the first
    ====== ===== ==========================================================================

    The grid's values are -1, 0 and 1.
    """

    name, type_id, block_size, block_bytes = "IQ1_M", 29, 256, 56
    fields16 = (48, 50, 52, 54)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (2 * scale + 1) * (grid + shift)``."""
        n = len(blocks)
        rest = words16(blocks[:, 48:])
        quarters = (rest >> 12) << np.array([0, 4, 8, 12], np.uint16)
        d = np.bitwise_or.reduce(quarters, axis=1, keepdims=True).view(np.float16)
        scales = (rest[..., None] >> np.array([0, 3, 6, 9], np.uint16)) & 7
        dl = d.astype(np.float32) * (2 * scales.reshape(n, 16) + 1)
        nibbles = planes(blocks[:, 32:48], 1, 4).reshape(n, 32)
        index = blocks[:, :32] | ((nibbles & 7).astype(np.uint16) << 8)
        shift = np.where(nibbles >> 3, np.float32(-0.125), np.float32(0.125))
        weights: Floats = grid("iq1s")[index] + shift[..., None]
        runs = weights.reshape(n, 16, 16)
        runs *= dl[..., None]
        return weights.reshape(n, 256)
