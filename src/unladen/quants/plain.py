"""The formats without blocks: one number per weight, little-endian."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unladen.quants.base import Blocks, Floats, Quant


class _Plain(Quant):
    """A number of NumPy's type ``dtype``, which decodes to its value rounded to float32."""

    dtype: ClassVar[str]
    block_size = 1

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """The numbers, rounded to float32."""
        return np.ascontiguousarray(blocks).view(cls.dtype).astype(np.float32)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """The nearest numbers, ties to even; float16 rounds 65520 and more to infinity."""
        whole = np.dtype(cls.dtype).kind == "i"
        return (np.rint(values) if whole else values).astype(cls.dtype).view(np.uint8)


class F32(_Plain):
    """IEEE binary32."""

    name, type_id, block_bytes, dtype = "F32", 0, 4, "<f4"
    fields32 = (0,)


class F16(_Plain):
    """IEEE binary16."""

    name, type_id, block_bytes, dtype = "F16", 1, 2, "<f2"
    planes = ((0, 2),)
    fields16 = (0,)


class BF16(Quant):
    """The upper half of an IEEE binary32."""

    name, type_id, block_size, block_bytes = "BF16", 30, 1, 2
    planes = ((0, 2),)
    fields16 = (0,)

    @classmethod
    def dequantize(cls, blocks: Blocks) -> Floats:
        """Bits shifted left by 16; exact."""
        upper = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32)
        upper <<= np.uint32(16)
        return upper.view(np.float32)

    @classmethod
    def quantize(cls, values: Floats) -> Blocks:
        """Round to nearest, ties to even. A NaN becomes a quiet NaN."""
        bits = values.view(np.uint32)
        upper = bits >> np.uint32(16)
        # A carry out of the mantissa increments the exponent, which is the correct rounding.
        rounded = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> np.uint32(16)
        upper = np.where(np.isnan(values), upper | np.uint32(0x40), rounded)
        return upper.astype("<u2").view(np.uint8)


class F64(_Plain):
    """IEEE binary64."""

    name, type_id, block_bytes, dtype = "F64", 28, 8, "<f8"
    fields64 = (0,)


class I8(_Plain):
    """Signed integer of 8 bits."""

    name, type_id, block_bytes, dtype = "I8", 24, 1, "i1"


class I16(_Plain):
    """Signed integer of 16 bits."""

    name, type_id, block_bytes, dtype = "I16", 25, 2, "<i2"
    fields16 = (0,)


class I32(_Plain):
    """Signed integer of 32 bits."""

    name, type_id, block_bytes, dtype = "I32", 26, 4, "<i4"
    fields32 = (0,)


class I64(_Plain):
    """Signed integer of 64 bits."""

    name, type_id, block_bytes, dtype = "I64", 27, 8, "<i8"
    fields64 = (0,)
