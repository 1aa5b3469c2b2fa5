"""Q4_K: 256 weights in 144 bytes, 4.5 bits each."""

from __future__ import annotations

from unladen.quants._bits import planes
from unladen.quants._kscales import scale_and_shift
from unladen.quants.base import Blocks, Floats, Quant


class Q4_K(Quant):
    """Eight runs of 32 weights, each with a scale and a minimum of 6 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      2     ``dmin`` float16
    4      12    ``scale``, ``min``: see :mod:`unladen.quants._kscales`
    16     128   ``q``, 64 weights in 32 bytes: byte j holds q[j] low, q[j + 32] high
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "Q4_K", 12, 256, 144
    planes = ((16, 128),)
    fields16 = (0, 2)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * scale[s] * q[i] - dmin * min[s]``, ``s = i // 32``."""
        return scale_and_shift(blocks, planes(blocks[:, 16:], 32, 4))
