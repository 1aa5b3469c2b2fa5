"""Matrices as kernels read them: whole rows, in pieces that a kernel can bind."""

from __future__ import annotations

from dataclasses import dataclass

from unladen.backends._gpu.lowering.base import Lowering, numbers, row_bytes
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.target import Constants, Range
from unladen.backends.base import Placed
from unladen.graph.graph import Node
from unladen.quants import file_format, get
from unladen.quants.tiles import COLUMNS, ROWS, layout_of

PLAIN_BLOCK = 32
"""How many weights of a format without blocks a kernel takes at a time."""
ROWS_PER_GROUP = 4
"""How many rows of a weight a workgroup multiplies with a few rows of x."""
FEW_ROWS = 8
"""Up to this many rows of x a product reads each weight once for all of them and is limited by
memory. For more rows tiles are faster."""
TILES_THREADS = 256
"""The most threads that share the columns of rows in tiles."""
LONG_ROW = 32 * 32
"""A row with more columns than this is shared by 64 threads instead of 32."""
LONGEST_ROW = 128 * 32
"""A row with at least so many columns is shared by 128 threads if it meets one row of x."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Whole rows of a weight, all of them in one binding. ``in_tiles``: its blocks are in tiles
    (:mod:`unladen.quants.tiles`)."""

    quant: str
    in_tiles: bool
    at: Range
    first_row: int
    n_rows: int
    n_out: int
    n_in: int

    @property
    def constants(self) -> Constants:
        """The constants of kernels that decode the matrix."""
        block_size, block_bytes = get(self.quant).block_size, get(self.quant).block_bytes
        if block_size == 1:
            block_size, block_bytes = PLAIN_BLOCK, PLAIN_BLOCK * block_bytes
        aligned = block_bytes % 4 == 0 and row_bytes(self.quant, self.n_in) % 4 == 0
        quads = block_bytes % 16 == 0 and row_bytes(self.quant, self.n_in) % 16 == 0
        if self.in_tiles:
            return {"BLOCK": block_size, "BLOCK_BYTES": block_bytes, **_tile_constants(self.quant)}
        return {"BLOCK": block_size, "BLOCK_BYTES": block_bytes, "ALIGNED": aligned,
                "QUADS": quads, "RAGGED": self.n_in % block_size != 0}

    def threads(self, n_together: int = 0) -> int:
        """The number of threads in a workgroup; they share a row's groups of 32 columns. There may
        be more of them where a row meets one row of x (``n_together`` 1), since each thread then
        holds fewer numbers."""
        if self.in_tiles:
            return min(TILES_THREADS, max(64, self.n_in // COLUMNS // 2 * 32))
        if n_together == 1 and self.n_in >= LONGEST_ROW:
            return 128
        return 64 if self.n_in > LONG_ROW else 32

    @property
    def n_groups(self) -> int:
        """How many workgroups multiply its rows with a few rows of x."""
        return -(-self.n_rows // self.rows_per_group)

    @property
    def rows_per_group(self) -> int:
        """How many rows a workgroup multiplies with a few rows of x."""
        return ROWS if self.in_tiles else ROWS_PER_GROUP

    @property
    def numbers(self) -> tuple[int, ...]:
        """The fields of the kernels' struct ``Matrix``."""
        return (self.first_row, self.n_rows, self.n_out, self.n_in,
                row_bytes(self.quant, self.n_in))

    @property
    def params(self) -> bytes:
        """The bytes of the kernels' struct ``Matrix``."""
        return numbers(*self.numbers)

    @property
    def few(self) -> Constants:
        """The constants of kernels that multiply rows with one row of x."""
        return {"R": self.rows_per_group, "NT": 1, **self.constants}


def _tile_constants(quant: str) -> Constants:
    kind, layout = get(quant), layout_of(get(quant))
    n, planes = layout.n_blocks, layout.planes
    aside = len(layout.aside)
    first = next((i for i in layout.aside), 0)
    return {"TILED": True, "PLAIN": kind.block_size == 1, "TILE_COLUMNS": n * kind.block_size,
            "TILE_BYTES": ROWS * n * kind.block_bytes, "PLANE1_AT": ROWS * n * planes[0][1],
            "ASIDE_AT": ROWS * n * sum(size for _, size in planes), "ASIDE_BYTES": aside,
            "ASIDE_FIRST": first, "ALIGNED": aside % 4 == 0, "QUADS": aside % 16 == 0}


def matrices(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """All rows of the weight in ``role``, in as many pieces as the device needs."""
    placed = low.placed(node, role)
    n_in = placed.weight.shape[-1]
    n_out = placed.weight.n_elements // n_in
    together = get(placed.quant).rows_together
    return [_matrix(placed, at, together * first, together * n, n_out) for at, first, n in
            of_gpu(placed.buffer).rows(placed.offset, together * row_bytes(placed.quant, n_in),
                                       n_out // together)]


def stacked(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """The matrices of experts or heads in ``role``, in pieces of whole matrices. ``first_row`` and
    ``n_rows`` of a piece count experts or heads."""
    placed = low.placed(node, role)
    n_held, n_out, n_in = placed.weight.shape
    one = n_out * row_bytes(placed.quant, n_in)
    return [_matrix(placed, at, first, n, n_out) for at, first, n in
            of_gpu(placed.buffer).rows(placed.offset, one, n_held)]


def _matrix(placed: Placed, at: Range, first: int, n: int, n_out: int) -> Matrix:
    quant = file_format(placed.quant)
    return Matrix(quant, quant != placed.quant, at, first, n, n_out, placed.weight.shape[-1])
