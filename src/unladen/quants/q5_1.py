"""Q5_1: 32 weights in 24 bytes, 6 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, scaled
from unladen.quants._legacy import encode_offset, pack5, unpack5
from unladen.quants.base import Blocks, Floats, Quant


class Q5_1(Quant):
    """One scale, one minimum and 32 numbers of 5 bits.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      2     ``m`` float16
    4      4     bit i: bit 4 of q[i]
    8      16    low bits of ``q``: q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q5_1", 7, 32, 24
    planes = ((8, 16),)
    fields16, fields32 = (0, 2), (4,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * q[i] + m``."""
        return scaled(half(blocks, 0), unpack5(blocks[:, 4:])) + half(blocks, 2)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Spread the range of the block over 0..31 and round, ties up."""
        d_and_m, q = encode_offset(values, 31)
        return np.concatenate([d_and_m, pack5(q)], axis=1)
