"""MXFP4: 32 weights in 17 bytes, 4.25 bits each.

Source: OCP Microscaling Formats (MX) Specification 1.0, with GGUF's order of nibbles.
"""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import planes, scaled
from unladen.quants._codebooks import levels
from unladen.quants.base import Blocks, Floats, Quant


class MXFP4(Quant):
    """A power of two (E8M0) and 32 floats of 4 bits (E2M1).

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      1     ``e`` uint8, exponent with bias 127
    1      16    ``q``: byte j holds q[j] low, q[j + 16] high
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "MXFP4", 39, 32, 17
    planes = ((1, 16),)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = 2 ** (e - 128) * level[q[i]]``; a level is twice the E2M1 number."""
        d = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
        return scaled(d, levels("mxfp4")[planes(blocks[:, 1:], 16, 4)])
