"""Reads the tensor table of one file and checks it against the bytes that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, InvalidArgument
from unladen.gguf.byteswap import swapped
from unladen.gguf.cursor import TRUNCATED, Cursor
from unladen.gguf.layout import DEFAULT_ALIGNMENT, MAX_DIMS, ByteOrder
from unladen.gguf.metadata import Metadata
from unladen.quants import Quant, by_id, get
from unladen.storage.mapping import FileMapping

SMALLEST_RECORD: Final = 8 + 4 + 8 + 4 + 8
"""Bytes of the smallest record: the length of an empty name, the number of dimensions, one
dimension, type, offset. Bounds the number of records."""

_REMOVED: Final = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
                   36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}


@dataclass(slots=True)
class Part:
    """One file of a model. ``buffer`` is its ``mapping`` as uint8; both are None once it is closed.
    """

    path: str
    byteorder: ByteOrder
    buffer: npt.NDArray[np.uint8] | None
    mapping: FileMapping | None = None


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor in a file.

    ``shape`` has the slowest dimension first (the file stores the fastest first), ``quant`` is
    the name of its block format, ``nbytes`` its size, ``offset`` its first byte in the file
    ``GGUFFile.paths[file_index]``.
    """

    name: str
    shape: tuple[int, ...]
    quant: str
    nbytes: int
    offset: int
    file_index: int
    _part: Part = field(repr=False, compare=False)

    @property
    def n_elements(self) -> int:
        """How many numbers the tensor holds."""
        return math.prod(self.shape)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """uint8 [nbytes], little-endian blocks; a read-only view of the file.

        A big-endian file gives a swapped copy, made anew each time. Raises
        :class:`InvalidArgument` after the file was closed, and :class:`GGUFError` where the file
        has become too short: a read behind its end would crash the process.
        """
        if self._part.buffer is None:
            raise InvalidArgument(f"{self._part.path} is closed, {self.name} can't be read",
                                  hint="keep the GGUFFile open while its tensors are in use")
        size = self._part.mapping.size() if self._part.mapping else self._part.buffer.size
        if self.offset + self.nbytes > size:
            raise GGUFError(f"was cut to {size} bytes while it was open, {self.name} ends at "
                            f"{self.offset + self.nbytes}", path=self._part.path, offset=size,
                            hint="write models elsewhere and rename them into place")
        raw = self._part.buffer[self.offset:self.offset + self.nbytes]
        return raw if self._part.byteorder == "little" else swapped(raw, get(self.quant))


class _Record(NamedTuple):
    name: str
    shape: tuple[int, ...]
    quant: type[Quant]
    nbytes: int
    relative: int
    at: int
    relative_at: int


def read_tensors(cursor: Cursor, n: int, metadata: Metadata, part: Part, file_index: int
                 ) -> Mapping[str, TensorInfo]:
    """Read ``n`` records, then place them in the rest of the file; raises ``GGUFError``."""
    alignment = _alignment(cursor, metadata)
    records: dict[str, _Record] = {}
    for _ in range(n):
        record = _record(cursor)
        if record.name in records:
            raise cursor.error(f"the tensor {record.name!r} occurs twice", offset=record.at)
        records[record.name] = record
    base = -(-cursor.pos // alignment) * alignment
    _check_placement(cursor, list(records.values()), base, alignment)
    return {r.name: TensorInfo(r.name, r.shape, r.quant.name, r.nbytes, base + r.relative,
                               file_index, part) for r in records.values()}


def _alignment(cursor: Cursor, metadata: Metadata) -> int:
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT
    value = metadata[key]
    if metadata.type_of(key) != "UINT32" or not isinstance(value, int) or value.bit_count() != 1:
        raise cursor.error(f"{key} is {value!r} ({metadata.type_of(key)}), not a power of two "
                           "(UINT32)", offset=metadata.offset_of(key))
    return value


def _record(cursor: Cursor) -> _Record:
    at = cursor.pos
    name = cursor.name("a tensor's name")
    dims_at = cursor.pos
    n_dims = cursor.u32(f"the number of dimensions of {name}")
    if not 1 <= n_dims <= MAX_DIMS:
        raise cursor.error(f"{name} has {n_dims} dimensions, not 1 to {MAX_DIMS}", offset=dims_at)
    shape = tuple(cursor.u64(f"a dimension of {name}") for _ in range(n_dims))[::-1]
    type_at = cursor.pos
    quant = _quant(cursor, name, cursor.u32(f"the type of {name}"), type_at)
    if 0 in shape or shape[-1] % quant.block_size:
        raise cursor.error(f"{name} of {quant.name} has the shape {shape}: no dimension may be 0 "
                           f"and rows must be multiples of {quant.block_size}", offset=dims_at)
    nbytes = math.prod(shape) // quant.block_size * quant.block_bytes
    if nbytes > cursor.bytes.size:
        raise cursor.error(f"{name} has the shape {shape}, {nbytes} bytes, in a file of "
                           f"{cursor.bytes.size}", offset=dims_at, hint=TRUNCATED)
    relative_at = cursor.pos
    return _Record(name, shape, quant, nbytes, cursor.u64(f"the offset of {name}"), at,
                   relative_at)


def _quant(cursor: Cursor, name: str, type_id: int, at: int) -> type[Quant]:
    if type_id in _REMOVED:
        raise cursor.error(f"{name} has the type {_REMOVED[type_id]} ({type_id}), which was "
                           "removed from GGUF", offset=at,
                           hint="get the model as Q4_0 or IQ4_NL, or quantize it again")
    quant = by_id(type_id)
    if quant is None:
        raise cursor.error(f"{name} has the unknown type {type_id}", offset=at,
                           hint="a newer unladen or a plug-in may know it, or get another quant")
    return quant


def _check_placement(cursor: Cursor, records: list[_Record], base: int, alignment: int) -> None:
    size = cursor.bytes.size
    previous, end = "", 0
    for r in sorted(records, key=lambda r: r.relative):
        if r.relative % alignment:
            raise cursor.error(f"the data of {r.name} begin at {r.relative}, not a multiple of "
                               f"{alignment}", offset=r.relative_at)
        if r.relative < end:
            raise cursor.error(f"the data of {r.name} overlap those of {previous}",
                               offset=r.relative_at)
        previous, end = r.name, r.relative + r.nbytes
        if base + end > size:
            raise cursor.error(f"the data of {r.name} end at {base + end}, the file at {size}",
                               offset=r.relative_at, hint=TRUNCATED)
