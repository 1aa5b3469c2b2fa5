"""NVFP4: 64 weights in 36 bytes, 4.5 bits each."""

from __future__ import annotations

import functools

import numpy as np

from unladen.quants._bits import planes, scaled
from unladen.quants._codebooks import levels
from unladen.quants.base import Blocks, Floats, Quant


class NVFP4(Quant):
    """Four runs of 16 floats of 4 bits (E2M1), each with a scale of 8 bits (E4M3, no sign).

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      4     ``scale``: 4 bits of exponent with bias 7 above 3 of mantissa; bit 7 unused
    4      32    ``q``, 16 weights in 8 bytes: byte j holds q[j] low, q[j + 8] high
    ====== ===== ==========================================================================
    """

    name, type_id, block_size, block_bytes = "NVFP4", 40, 64, 36

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = scale[i // 16] / 2 * level[q[i]]``; a level is twice the E2M1 number."""
        return scaled(_half_scales()[blocks[:, :4]], levels("mxfp4")[planes(blocks[:, 4:], 8, 4)])


@functools.cache
def _half_scales() -> Floats:
    """float32 [256]: half of the number that each scale byte stands for."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    significand = np.where(exponent, mantissa + 8, mantissa).astype(np.float32)
    table: Floats = np.ldexp(significand, np.maximum(exponent, 1) - 11)
    # 0x7F is E4M3's NaN. ggml reads it as zero, but reads 0xFF as a number.
    table[0x7F] = 0
    table.flags.writeable = False
    return table
