"""Q4_0: 32 weights in 18 bytes, 4.5 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, pack, planes, scaled
from unladen.quants._legacy import encode_signed
from unladen.quants.base import Blocks, Floats, Quant


class Q4_0(Quant):
    """One scale and 32 nibbles.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      16    ``q``: byte j holds q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q4_0", 2, 32, 18
    planes = ((2, 16),)
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (q[i] - 8)``."""
        q = planes(blocks[:, 2:], 16, 4).view(np.int8)
        q -= 8
        return scaled(half(blocks, 0), q)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Scale the number of largest magnitude to -8 and round, ties up."""
        d, q = encode_signed(values, 8)
        return np.concatenate([d, pack(q, 16, 4)], axis=1)
