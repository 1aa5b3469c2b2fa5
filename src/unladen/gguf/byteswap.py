"""Tensor data between byte orders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unladen.quants import Quant


def swapped(raw: npt.NDArray[np.uint8], quant: type[Quant]) -> npt.NDArray[np.uint8]:
    """A copy of uint8 [nbytes] in which the bytes of every number are reversed."""
    blocks = raw.reshape(-1, quant.block_bytes).copy()
    for offsets, width in ((quant.fields16, 2), (quant.fields32, 4), (quant.fields64, 8)):
        for offset in offsets:
            blocks[:, offset:offset + width] = np.flip(blocks[:, offset:offset + width], 1).copy()
    return blocks.reshape(-1)
