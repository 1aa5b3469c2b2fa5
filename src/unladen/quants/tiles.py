"""Blocks in tiles, a layout of devices: sixteen rows together, their words in the order in which
the lanes of a matrix unit take them.

A tile has whole blocks of :data:`ROWS` rows. First come words of codes (:attr:`Quant.planes`), in
chunks of eight words of each row. In a chunk, lane ``4 g + t`` has four words, which it loads at
once: word t of rows g and g + 8, then word t + 4 of both. After the codes come the other bytes of
each block. A tile has as many bytes as its blocks, so tiles are a permutation of a tensor's bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen._native import quants as native
from unladen.errors import InvalidArgument
from unladen.quants.base import Quant

SUFFIX = "/tiles"
"""The name of a format in tiles is that of the format, then this."""
ROWS = 16
"""Rows of a tile."""
CHUNK = 8
"""Words of a row in a chunk."""
COLUMNS = 64
"""The columns of a tile are a multiple of this."""
PAIRED = (0, 2, 4, 6, 1, 3, 5, 7)
"""The order of a chunk's words where a word has two numbers: a lane then has four neighbours."""
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Layout:
    """The tiles of a format: ``n_blocks`` blocks of a row, the first byte and the bytes of each
    plane of a block, and its other bytes as indices."""

    n_blocks: int
    planes: Sequence[tuple[int, int]]
    aside: Sequence[int]
    is_paired: bool

    @classmethod
    def of(cls, quant: type[Quant]) -> Layout | None:
        """The layout of ``quant``; None: the format has no words of codes."""
        if not quant.planes:
            return None
        n = COLUMNS // math.gcd(COLUMNS, quant.block_size)
        taken = {i for first, size in quant.planes for i in range(first, first + size)}
        assert all(n * size % (4 * CHUNK) == 0 for _, size in quant.planes), quant
        aside = [i for i in range(quant.block_bytes) if i not in taken]
        return cls(n, quant.planes, aside, quant.block_size == 1)

    def pack(self, rows: Bytes) -> Bytes:
        """Bytes in tiles of blocks, uint8 [n_rows, n_blocks of a row, block_bytes]."""
        n_rows, n_blocks, block_bytes = rows.shape
        at = rows.reshape(n_rows // ROWS, ROWS, n_blocks // self.n_blocks, self.n_blocks,
                          block_bytes)
        out = np.empty((at.shape[0], at.shape[2], ROWS * self.n_blocks * block_bytes), np.uint8)
        start = 0
        for first, size in self.planes:
            n = ROWS * self.n_blocks * size
            taken = at[..., first:first + size].reshape(*at.shape[:3], -1)
            words = np.ascontiguousarray(taken).view(np.uint32)
            words = self._ordered(words.reshape(*at.shape[:3], -1, CHUNK), PAIRED)
            # [band, half, g, tile, chunk, second, t] -> [band, tile, chunk, g, t, second, half]
            lanes = words.reshape(at.shape[0], 2, 8, at.shape[2], -1, 2, 4)
            packed = np.ascontiguousarray(lanes.transpose(0, 3, 4, 2, 6, 5, 1))
            out[..., start:start + n] = packed.view(np.uint8).reshape(*out.shape[:2], n)
            start += n
        rest = at[..., list(self.aside)].transpose(0, 2, 3, 1, 4)
        out[..., start:] = rest.reshape(*out.shape[:2], -1)
        return out.reshape(-1)

    def words(self, block_bytes: int) -> list[int] | None:
        """Where each word of codes begins in a row's bytes of a tile, in the tile's order. None
        where a word has bytes of two places, which native code doesn't move."""
        at = np.arange(self.n_blocks)[:, None] * block_bytes
        found: list[int] = []
        for first, size in self.planes:
            taken = (at + np.arange(first, first + size)).reshape(-1, CHUNK, 4)
            if (np.diff(taken) != 1).any():
                return None
            starts = taken[..., 0]
            found += (starts[:, list(PAIRED)] if self.is_paired else starts).reshape(-1).tolist()
        return found

    def unpack(self, raw: Bytes, n_rows: int, n_blocks: int, block_bytes: int) -> Bytes:
        """The blocks whose tiles are ``raw``: what :meth:`pack` took."""
        n_bands, n_tiles = n_rows // ROWS, n_blocks // self.n_blocks
        tiles = raw.reshape(n_bands, n_tiles, -1)
        out = np.empty((n_bands, ROWS, n_tiles, self.n_blocks, block_bytes), np.uint8)
        start = 0
        for first, size in self.planes:
            n = ROWS * self.n_blocks * size
            packed = np.ascontiguousarray(tiles[..., start:start + n]).view(np.uint32)
            lanes = packed.reshape(n_bands, n_tiles, -1, 8, 4, 2, 2).transpose(0, 6, 3, 1, 2, 5, 4)
            words = np.ascontiguousarray(lanes).reshape(n_bands, ROWS, n_tiles, -1, CHUNK)
            words = np.ascontiguousarray(self._ordered(words, np.argsort(PAIRED).tolist()))
            out[..., first:first + size] = words.view(np.uint8).reshape(
                n_bands, ROWS, n_tiles, self.n_blocks, size)
            start += n
        rest = tiles[..., start:].reshape(n_bands, n_tiles, self.n_blocks, ROWS, -1)
        out[..., list(self.aside)] = rest.transpose(0, 3, 1, 2, 4)
        return out.reshape(n_rows, n_blocks, block_bytes)

    def _ordered(self, words: npt.NDArray[np.uint32], order: Sequence[int]
                 ) -> npt.NDArray[np.uint32]:
        return words[..., list(order)] if self.is_paired else words


@dataclass(frozen=True, slots=True)
class Packer:
    """Makes the tiles of a tensor in ``quant`` with ``n_rows`` rows of ``row_bytes``, any of them
    without the others. ``words``: as :meth:`Layout.words` says."""

    quant: type[Quant]
    layout: Layout
    words: Sequence[int] | None
    n_rows: int
    row_bytes: int

    @classmethod
    def of(cls, quant: type[Quant], shape: Sequence[int]) -> Packer:
        """What packs a tensor of ``shape``, which must fit into tiles (:func:`fits`)."""
        layout = layout_of(quant)
        return cls(quant, layout, layout.words(quant.block_bytes), math.prod(shape[:-1]),
                   quant.row_bytes(shape[-1]))

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        return ROWS * self.layout.n_blocks * self.quant.block_bytes

    @property
    def band_bytes(self) -> int:
        """Bytes of sixteen rows, which are those of their tiles."""
        return ROWS * self.row_bytes

    def rows(self, raw: Bytes) -> Bytes:
        """The tensor's blocks ``raw`` as uint8 [n_rows, row_bytes]. Raises :class:`InvalidArgument`
        where there are more or fewer of them."""
        if raw.size != self.n_rows * self.row_bytes:
            raise InvalidArgument(f"{raw.size} bytes aren't {self.n_rows} rows of {self.row_bytes} "
                                  f"bytes in {self.quant.name}", hint="is the file complete?")
        return raw.reshape(self.n_rows, self.row_bytes)

    def pack(self, rows: Bytes, out: Bytes, start: int = 0, n_threads: int = 1) -> None:
        """Fill ``out`` with the bytes of the tiles from byte ``start`` on: whole tiles.

        ``rows``: the tensor's blocks, uint8 [n_rows, row_bytes]; the rows may be apart from one
        another. ``n_threads``: how many threads share the work. Raises :class:`InvalidArgument`
        where the sizes don't agree.
        """
        size = self.tile_bytes
        if rows.shape != (self.n_rows, self.row_bytes):
            raise InvalidArgument(f"an array {list(rows.shape)} isn't the blocks of {self.n_rows} "
                                  f"rows of {self.row_bytes} bytes", hint="is the file complete?")
        if start % size or out.size % size or not 0 <= start <= rows.size - out.size:
            raise InvalidArgument(f"{out.size} bytes from {start} on aren't whole tiles of {size} "
                                  f"bytes in a tensor of {rows.size}", hint="ask for whole tiles")
        if not out.size:
            return
        if self.words is not None:
            native.pack_tiles(rows, out, list(self.words), list(self.layout.aside),
                              self.quant.block_bytes, start // size, n_threads)
        else:
            first, last = start // self.band_bytes, -(-(start + out.size) // self.band_bytes)
            blocks = np.ascontiguousarray(rows[ROWS * first:ROWS * last])
            made = self.layout.pack(blocks.reshape(len(blocks), -1, self.quant.block_bytes))
            start -= first * self.band_bytes
            out[:] = made[start:start + out.size]


def tiled(quant: type[Quant]) -> type[Quant] | None:
    """The format ``quant`` in tiles; None where it has no tiles."""
    if Layout.of(quant) is None:
        return None
    return type(f"{quant.__name__}_Tiles", (quant,), {
        "name": quant.name + SUFFIX, "planes": (), "rows_together": ROWS})


def layout_of(quant: type[Quant]) -> Layout:
    """The layout of a format that has tiles."""
    layout = Layout.of(quant)
    assert layout is not None, quant
    return layout


def fits(quant: type[Quant], shape: Sequence[int]) -> bool:
    """Whether a tensor of ``shape`` in format ``quant`` can be cut into tiles."""
    layout = Layout.of(quant)
    return (layout is not None and len(shape) > 1 and shape[-2] % ROWS == 0
            and shape[-1] % (layout.n_blocks * quant.block_size) == 0)


def pack(quant: type[Quant], raw: Bytes, shape: Sequence[int]) -> Bytes:
    """The bytes of a tensor of ``shape`` in tiles; ``raw``: its blocks. Raises
    :class:`InvalidArgument` where there are more or fewer of them."""
    packer = Packer.of(quant, shape)
    out = np.empty(raw.size, np.uint8)
    packer.pack(packer.rows(np.ascontiguousarray(raw)), out)
    return out


def unpack(quant: type[Quant], raw: Bytes, shape: Sequence[int]) -> Bytes:
    """The blocks of a tensor of ``shape``; ``raw``: its bytes in tiles."""
    n_rows = math.prod(shape[:-1])
    return layout_of(quant).unpack(raw, n_rows, shape[-1] // quant.block_size,
                                   quant.block_bytes).reshape(-1)
