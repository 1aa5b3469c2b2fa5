"""Q6_K: 256 weights in 210 bytes, 6.5625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class Q6_K(Quant):
    """Sixteen runs of 16 weights, each with a scale of 8 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      128   low 4 bits of ``q``, 128 weights in 64 bytes: byte j holds q[j], q[j + 64]
    128    64    high 2 bits, 128 weights in 32 bytes: byte j holds q[j], q[j + 32], ...
    192    16    ``scale`` int8
    208    2     ``d`` float16
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "Q6_K", 14, 256, 210
    planes = ((0, 128), (128, 64))
    fields16 = (208,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * scale[i // 16] * (q[i] - 32)``."""
        q = planes(blocks[:, 128:192], 32, 2).reshape(-1, 256)
        q <<= 4
        q |= planes(blocks[:, :128], 64, 4).reshape(-1, 256)
        scales = half(blocks, 208) * blocks[:, 192:208].view(np.int8)
        return scaled(scales, q.view(np.int8) - np.int8(32))
