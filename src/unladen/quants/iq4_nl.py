"""IQ4_NL: 32 weights in 18 bytes, 4.5 bits each."""

from __future__ import annotations

from unladen.quants._bits import half, planes, scaled
from unladen.quants._codebooks import levels
from unladen.quants.base import Blocks, Floats, Quant


class IQ4_NL(Quant):
    """One scale and 32 indices into 16 unevenly spaced levels.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      16    ``q``: byte j holds q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "IQ4_NL", 20, 32, 18
    planes = ((2, 16),)
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * level[q[i]]``."""
        return scaled(half(blocks, 0), levels("iq4nl")[planes(blocks[:, 2:], 16, 4)])
