"""Encodes a file's header: all bytes before the tensor data."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unladen.errors import InvalidArgument
from unladen.gguf.encode import encode_string
from unladen.gguf.layout import DEFAULT_ALIGNMENT, MAGIC, MAX_DIMS, ByteOrder, order_char
from unladen.quants import get

Buffer = bytes | memoryview


class TensorEntry(NamedTuple):
    """A tensor to write: ``shape`` slowest dimension first, ``quant`` its block format's name."""

    name: str
    shape: tuple[int, ...]
    quant: str

    @property
    def nbytes(self) -> int:
        """Its size in the file."""
        return get(self.quant).row_bytes(math.prod(self.shape))

    def check(self) -> None:
        """Raise :class:`InvalidArgument` for a shape that the file or the format can't have."""
        if not 1 <= len(self.shape) <= MAX_DIMS or any(n < 1 for n in self.shape):
            raise InvalidArgument(f"{self.name}: the shape {self.shape} must have 1 to {MAX_DIMS} "
                                  "dimensions of at least 1")
        block_size = get(self.quant).block_size
        if self.shape[-1] % block_size:
            raise InvalidArgument(f"{self.name}: rows of {self.shape[-1]} aren't a multiple of "
                                  f"{self.quant}'s block of {block_size}")


class Header(NamedTuple):
    """``encoded``: all bytes before the data; ``offsets``: where in the file each tensor begins;
    ``nbytes``: the size of the whole file."""

    encoded: bytes
    offsets: tuple[int, ...]
    nbytes: int


def encode_header(metadata: Mapping[str, Buffer], tensors: Sequence[TensorEntry], *,
                  byteorder: ByteOrder = "little", version: int = 3,
                  alignment: int = DEFAULT_ALIGNMENT) -> Header:
    """The header of a file with ``metadata``, whose values are encoded with their types, and
    ``tensors``. The data of each tensor begins at the next multiple of ``alignment`` bytes."""
    order = order_char(byteorder)

    def aligned(n: int) -> int:
        return -(-n // alignment) * alignment

    parts: list[Buffer] = [MAGIC + struct.pack(order + "IQQ", version, len(tensors),
                                               len(metadata))]
    for key, value in metadata.items():
        parts += [encode_string(key, order), value]
    relative = [0]
    for t in tensors:
        n_dims = len(t.shape)
        parts.append(encode_string(t.name, order) + struct.pack(
            f"{order}I{n_dims}QIQ", n_dims, *t.shape[::-1], get(t.quant).type_id, relative[-1]))
        relative.append(aligned(relative[-1] + t.nbytes))
    encoded = b"".join(parts)
    base = aligned(len(encoded))
    return Header(encoded + bytes(base - len(encoded)), tuple(base + r for r in relative[:-1]),
                  base + relative[-1])
