"""TQ1_0: 256 weights of -1, 0, 1 in 54 bytes, 1.6875 bits each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.quants._bits import half, scaled
from unladen.quants.base import Blocks, Floats, Quant


class TQ1_0(Quant):
    """One scale and 256 digits of base 3, five a byte (the last four bytes: four).

    ====== ===== ==========================================================================
    offset bytes field
    ====== ===== ==========================================================================
    0      32    byte j holds the digits q[j], q[j + 32], ... q[j + 128]
    32     16    byte j holds q[160 + j], q[176 + j], ... q[224 + j]
    48     4     byte j holds q[240 + j], q[244 + j], ... q[252 + j]
    52     2     ``d`` float16
    ====== ===== ==========================================================================

    A byte is the fraction 0.abcde of base 3 times 256, rounded up: multiplied by 3, the digit
    comes out at the top and the rest stays in the byte.
    """

    name, type_id, block_size, block_bytes = "TQ1_0", 34, 256, 54
    fields16 = (52,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """``w[i] = d * (q[i] - 1)``."""
        parts = [_digits(blocks[:, :32], 5), _digits(blocks[:, 32:48], 5),
                 _digits(blocks[:, 48:52], 4)]
        q = np.concatenate(parts, axis=1).view(np.int8)
        return scaled(half(blocks, 52), q - np.int8(1))


def _digits(raw: Blocks, n_digits: int) -> npt.NDArray[np.uint8]:
    """The leading base-3 digits of uint8 [n, k]: uint8 [n, n_digits * k]."""
    shifted = raw[:, None] * np.array([1, 3, 9, 27, 81][:n_digits], np.uint8)[:, None]
    digits = (shifted.astype(np.uint16) * 3 >> 8).astype(np.uint8)
    return digits.reshape(len(raw), -1)
