"""Q5_K: 256 weights in 176 bytes, 5.5 bits each."""

from __future__ import annotations

from unladen.quants._bits import planes
from unladen.quants._kscales import scale_and_shift
from unladen.quants.base import Blocks, Floats, Quant


class Q5_K(Quant):
    """Eight runs of 32 weights, each with a scale and a minimum of 6 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      2     ``d`` float16
    2      2     ``dmin`` float16
    4      12    ``scale``, ``min``: see :mod:`unladen.quants._kscales`
    16     32    top bit of ``q``: bit k of byte j belongs to q[j + 32 * k]
    48     128   low 4 bits, 64 weights in 32 bytes: byte j holds q[j] low, q[j + 32] high
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "Q5_K", 13, 256, 176
    planes = ((48, 128), (16, 32))
    fields16 = (0, 2)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * scale[s] * q[i] - dmin * min[s]``, ``s = i // 32``."""
        q = planes(blocks[:, 48:], 32, 4)
        q |= planes(blocks[:, 16:48], 32, 1) << 4
        return scale_and_shift(blocks, q)
