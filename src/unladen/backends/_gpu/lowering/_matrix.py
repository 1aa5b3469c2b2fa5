"""Matrices as kernels read them: whole rows, in pieces that a kernel can bind."""

from __future__ import annotations

from dataclasses import dataclass

from unladen.backends._gpu.lowering.base import Lowering, numbers, row_bytes
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.target import Constants, Range
from unladen.graph.graph import Node
from unladen.quants import get

PLAIN_BLOCK = 32
"""How many weights of a format without blocks a kernel takes at a time."""
ROWS_PER_GROUP = 4
"""How many rows of a weight a workgroup multiplies with a few rows of x."""
LONG_ROW = 32 * 32
"""A row with more columns than this is shared by 64 threads instead of 32."""
LONGEST_ROW = 128 * 32
"""A row with at least so many columns is shared by 128 threads if it meets one row of x."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Whole rows of a weight, all of them in one binding."""

    quant: str
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
        return {"BLOCK": block_size, "BLOCK_BYTES": block_bytes, "ALIGNED": aligned,
                "QUADS": quads, "RAGGED": self.n_in % block_size != 0}

    def threads(self, n_together: int = 0) -> int:
        """The number of threads in a workgroup; they share a row's groups of 32 columns. There may
        be more of them where a row meets one row of x (``n_together`` 1), since each thread then
        holds fewer numbers."""
        if n_together == 1 and self.n_in >= LONGEST_ROW:
            return 128
        return 64 if self.n_in > LONG_ROW else 32

    @property
    def n_groups(self) -> int:
        """How many workgroups multiply its rows with a few rows of x."""
        return -(-self.n_rows // ROWS_PER_GROUP)

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
        return {"R": ROWS_PER_GROUP, "NT": 1, **self.constants}


def matrices(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """All rows of the weight in ``role``, in as many pieces as the device needs."""
    placed = low.placed(node, role)
    n_in = placed.weight.shape[-1]
    n_out = placed.weight.n_elements // n_in
    pieces = of_gpu(placed.buffer).rows(placed.offset, row_bytes(placed.quant, n_in), n_out)
    return [Matrix(placed.quant, at, first, n, n_out, n_in) for at, first, n in pieces]


def stacked(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """The matrices of experts or heads in ``role``, in pieces of whole matrices. ``first_row`` and
    ``n_rows`` of a piece count experts or heads."""
    placed = low.placed(node, role)
    n_held, n_out, n_in = placed.weight.shape
    one = n_out * row_bytes(placed.quant, n_in)
    return [Matrix(placed.quant, at, first, n, n_out, n_in) for at, first, n in
            of_gpu(placed.buffer).rows(placed.offset, one, n_held)]
