"""Q2_0: 64 weights in 18 bytes, 2.25 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class Q2_0(Quant):
    """One scale and 64 numbers of 2 bits: -1, 0, 1 and 2.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      16    ``q``, four a byte, lowest first
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q2_0", 42, 64, 18
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (q[i] - 1)``."""
        return scaled(half(blocks, 0), planes(blocks[:, 2:], 1, 2).view(np.int8) - np.int8(1))
