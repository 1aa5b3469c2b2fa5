"""Q2_K: 256 weights in 84 bytes, 2.625 bits each."""

from __future__ import annotations

from unladen.quants._bits import half, planes, scaled
from unladen.quants.base import Blocks, Floats, Quant


class Q2_K(Quant):
    """Sixteen runs of 16 weights, each with a scale and a minimum of 4 bits.

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      16    byte s: ``scale[s]`` low nibble, ``min[s]`` high
    16     64    ``q``, 128 weights in 32 bytes: byte j holds q[j], q[j + 32], ...; low first
    80     2     ``d`` float16
    82     2     ``dmin`` float16
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "Q2_K", 10, 256, 84
    planes = ((16, 64),)
    fields16 = (80, 82)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * scale[s] * q[i] - dmin * min[s]``, ``s = i // 16``."""
        weights = scaled(half(blocks, 80) * (blocks[:, :16] & 15), planes(blocks[:, 16:80], 32, 2))
        mins = half(blocks, 82) * (blocks[:, :16] >> 4)
        runs = weights.reshape(-1, 16, 16)
        runs -= mins[..., None]
        return weights
