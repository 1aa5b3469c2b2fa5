"""The first 16 bytes of Q4_K and Q5_K: eight scales and eight minimums of 6 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.quants._bits import half, scaled
from unladen.quants.base import Blocks, Floats


def scales_and_mins(raw: Blocks) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Unpack uint8 [n, 12] to scales and minimums, uint8 [n, 8] each, of 6 bits.

    The first four scales are in the low 6 bits of bytes 0..3, the first four minimums in the low 6
    bits of bytes 4..7. Bytes 8..11 hold the low 4 bits of the last four (scale in the low nibble,
    minimum in the high one); the top 2 bits of bytes 0..3 and 4..7 hold their high bits.
    """
    first, second, rest = raw[:, 0:4], raw[:, 4:8], raw[:, 8:12]
    scales = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    mins = np.concatenate([second & 63, (rest >> 4) | ((second >> 2) & 48)], axis=1)
    return scales, mins


def scale_and_shift(blocks: Blocks, q: npt.NDArray[np.uint8]) -> Floats:
    """``d * scale * q - dmin * min`` for ``q`` [n, 8, 32]: float32 [n, 256]."""
    scales, mins = scales_and_mins(blocks[:, 4:16])
    weights = scaled(half(blocks, 0) * scales, q)
    runs = weights.reshape(-1, 8, 32)
    runs -= (half(blocks, 2) * mins)[..., None]
    return weights
