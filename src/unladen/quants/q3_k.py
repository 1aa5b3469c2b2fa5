"""Q3_K: 256 weights in 110 bytes, 3.4375 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class Q3_K(Quant):
    """Sixteen runs of 16 weights, each with a signed scale of 6 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      32    top bit of ``q``: bit k of byte j belongs to q[j + 32 * k]
    32     64    low 2 bits, 128 weights in 32 bytes: byte j holds q[j], q[j + 32], ...
    96     8     low 4 bits of ``scale``: byte j holds scale[j], scale[j + 8]
    104    4     high 2 bits of ``scale``: byte j holds scale[j], scale[j + 4], ...
    108    2     ``d`` float16
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "Q3_K", 11, 256, 110
    planes = ((32, 64), (0, 32))
    fields16 = (108,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (scale[i // 16] - 32) * (q[i] - 4)``."""
        low = planes(blocks[:, 96:104], 8, 4).reshape(-1, 16)
        high = planes(blocks[:, 104:108], 4, 2).reshape(-1, 16)
        scales = (low | (high << 4)).view(np.int8) - np.int8(32)
        q = planes(blocks[:, 32:96], 32, 2)
        q |= planes(blocks[:, :32], 32, 1) << 2
        return scaled(half(blocks, 108) * scales, q.view(np.int8) - np.int8(4))
