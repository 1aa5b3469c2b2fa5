"""Q4_1: 32 weights in 20 bytes, 5 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, pack, planes, scaled
from unladen.quants._legacy import encode_offset
from unladen.quants.base import Blocks, Floats, Quant


class Q4_1(Quant):
    """One scale, one minimum and 32 nibbles.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      2     ``m`` float16
    4      16    ``q``: byte j holds q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q4_1", 3, 32, 20
    planes = ((4, 16),)
    fields16 = (0, 2)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * q[i] + m``."""
        return scaled(half(blocks, 0), planes(blocks[:, 4:], 16, 4)) + half(blocks, 2)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Spread the range of the block over 0..15 and round, ties up."""
        d_and_m, q = encode_offset(values, 15)
        return np.concatenate([d_and_m, pack(q, 16, 4)], axis=1)
