"""Q8_0: 32 weights in 34 bytes, 8.5 bits each."""

from __future__ import annotations

import numpy as np

from unladen.quants._bits import half, reciprocal, store_half
from unladen.quants.base import Blocks, Floats, Quant


class Q8_0(Quant):
    """One scale and 32 bytes.

    ====== ===== ==================================================
    offset bytes field
    ====== ===== ==================================================
    0      2     ``d`` float16
    2      32    ``q`` int8
    ====== ===== ==================================================
    """

    name, type_id, block_size, block_bytes = "Q8_0", 8, 32, 34
    planes = ((2, 32),)
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * q[i]``."""
        return half(blocks, 0) * blocks[:, 2:].view(np.int8)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Scale the largest magnitude to 127 and round, ties away from zero."""
        d = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        d_bytes = store_half(d)
        target = values * reciprocal(d)
        magnitude = np.abs(target)
        whole = np.floor(magnitude)
        whole += magnitude - whole >= np.float32(0.5)
        q = np.copysign(whole, target).astype(np.int8)
        return np.concatenate([d_bytes, q.view(np.uint8)], axis=1)
