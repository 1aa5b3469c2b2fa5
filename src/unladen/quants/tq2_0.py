"""TQ2_0: 256 weights of -1, 0, 1 in 66 bytes, 2.0625 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class TQ2_0(Quant):
    """One scale and 256 numbers of 2 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      64    ``q``, 128 weights in 32 bytes: byte j holds q[j], q[j + 32], ...; low first
    64     2     ``d`` float16
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "TQ2_0", 35, 256, 66
    planes = ((0, 64),)
    fields16 = (64,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (q[i] - 1)``."""
        return scaled(half(blocks, 64), planes(blocks[:, :64], 32, 2).view(np.int8) - np.int8(1))
