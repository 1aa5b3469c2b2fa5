"""The numbers of the format: magic, versions, value types."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal

MAGIC: Final = b"GGUF"
"""The first bytes of every file."""
VERSIONS: Final = (2, 3)
"""Versions of the format that are read and written."""
DEFAULT_ALIGNMENT: Final = 32
"""Tensor data begin at multiples of this many bytes where ``general.alignment`` is missing."""
MAX_DIMS: Final = 4
"""Dimensions that a tensor may have; ggml has no more."""

ByteOrder = Literal["little", "big"]


class ValueType(IntEnum):
    """The type of a metadata value; its number is the one in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


DTYPES: Final = {
    ValueType.UINT8: "u1", ValueType.INT8: "i1", ValueType.UINT16: "u2", ValueType.INT16: "i2",
    ValueType.UINT32: "u4", ValueType.INT32: "i4", ValueType.FLOAT32: "f4", ValueType.BOOL: "u1",
    ValueType.UINT64: "u8", ValueType.INT64: "i8", ValueType.FLOAT64: "f8",
}
"""NumPy's code for every type of fixed size, without the byte order."""

STRUCT_CODES: Final = {
    ValueType.UINT8: "B", ValueType.INT8: "b", ValueType.UINT16: "H", ValueType.INT16: "h",
    ValueType.UINT32: "I", ValueType.INT32: "i", ValueType.FLOAT32: "f", ValueType.BOOL: "?",
    ValueType.UINT64: "Q", ValueType.INT64: "q", ValueType.FLOAT64: "d",
}
""":mod:`struct`'s code for the same types."""


def order_char(byteorder: ByteOrder) -> Literal["<", ">"]:
    """The character that means ``byteorder`` to struct and NumPy."""
    return "<" if byteorder == "little" else ">"
