"""What a block format is: one subclass of :class:`Quant` per GGUF tensor type."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from unladen.errors import UnsupportedQuant

Blocks = npt.NDArray[np.uint8]
"""uint8 [n_blocks, block_bytes]: raw blocks as they lie in the file."""
Floats = npt.NDArray[np.float32]
"""float32 [n_blocks, block_size]: the weights that blocks stand for."""


class Quant:
    """A GGUF tensor type: its size, and how its blocks are decoded.

    Class attributes: ``name`` as GGUF spells it (``"Q4_K"``), ``type_id`` the number in the file,
    ``block_size`` weights per block, ``block_bytes`` bytes per block. ``fields16``, ``fields32``
    and ``fields64`` are the byte offsets of the numbers of 2, 4 and 8 bytes inside a block. Reading
    a big-endian file reverses the bytes of these numbers; everywhere else blocks are little-endian.

    ``planes`` are the first byte and the bytes of each part of a block that has whole words of
    codes, for layouts that order words anew (:mod:`unladen.quants.tiles`). Such a layout has
    ``rows_together`` rows that can't be cut apart.
    """

    name: ClassVar[str]
    type_id: ClassVar[int]
    block_size: ClassVar[int]
    block_bytes: ClassVar[int]
    fields16: ClassVar[tuple[int, ...]] = ()
    fields32: ClassVar[tuple[int, ...]] = ()
    fields64: ClassVar[tuple[int, ...]] = ()
    planes: ClassVar[tuple[tuple[int, int], ...]] = ()
    rows_together: ClassVar[int] = 1

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """Return float32 [n_blocks, block_size] of uint8 [n_blocks, block_bytes]."""
        raise NotImplementedError

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Return uint8 [n_blocks, block_bytes] of float32 [n_blocks, block_size]."""
        raise UnsupportedQuant(f"{cls.name} can be read, not written",
                               hint="write F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1 or Q4_0")

    @classmethod
    def row_bytes(cls, n: int) -> int:
        """Bytes of a row of ``n`` weights; ``n`` must be a multiple of ``block_size``."""
        return n // cls.block_size * cls.block_bytes
