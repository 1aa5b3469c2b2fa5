"""Q1_0: 128 weights in 18 bytes, 1.125 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class Q1_0(Quant):
    """One scale and 128 signs.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      16    ``q``, a bit for each weight, lowest first
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q1_0", 41, 128, 18
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (2 * q[i] - 1)``: a set bit means plus."""
        q = planes(blocks[:, 2:], 1, 1).view(np.int8)
        return scaled(half(blocks, 0), 2 * q - 1)
