"""Q5_0: 32 weights in 22 bytes, 5.5 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, scaled
from unladen.quants._legacy import encode_signed, pack5, unpack5
from unladen.quants.base import Blocks, Floats, Quant


class Q5_0(Quant):
    """One scale and 32 numbers of 5 bits.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      4     bit i: bit 4 of q[i]
    6      16    low bits of ``q``: q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q5_0", 6, 32, 22
    planes = ((6, 16),)
    fields16, fields32 = (0,), (2,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (q[i] - 16)``."""
        q = unpack5(blocks[:, 2:]).view(np.int8)
        q -= 16
        return scaled(half(blocks, 0), q)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Scale the number of largest magnitude to -16 and round, ties up."""
        d, q = encode_signed(values, 16)
        return np.concatenate([d, pack5(q)], axis=1)
