"""Products of one matrix with rows of x. Their number decides which kernel runs."""

from __future__ import annotations

from types import MappingProxyType

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering._matrix import ROWS_PER_GROUP, Matrix
from unladen.backends._gpu.lowering.base import NO_RANGES, Lowering, rows_word
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Constants, Range

PLAIN_KERNELS = frozenset({"matvec", "matmul"})
"""The kernels of :func:`product` that read x as float32."""
CODED_KERNELS = frozenset({"quantize", "matmul_coded"})
"""The kernels that round x to int8, and that multiply x rounded to int8."""
FEW_ROWS = 8
"""Up to this many rows of x a product reads each weight once for all of them and is limited by
memory. For more rows tiles are faster."""
TILES = MappingProxyType({
    ("matmul", True): (128, 128), ("matmul", False): (64, 64),
    ("matmul_coded", True): (128, 64), ("matmul_coded", False): (64, 64)})
"""Rows of w and of x in a workgroup's tile, by kernel and whether the tile is wide."""
TILE_THREADS = 256
"""Threads of a workgroup that computes a tile."""
ENOUGH_TILES = 128
"""How many wide tiles fill a large GPU. A product with fewer uses small tiles."""


def product(low: Lowering, m: Matrix, rows: str, extra: Ranges, coded: Ranges = NO_RANGES,
            *, few: bool = True) -> None:
    """Append the dispatches of ``m`` times the rows of x.

    * ``rows``: the symbol that counts the rows of x.
    * ``extra``: bindings of x, y and what is added before y is stored.
    * ``coded``: bindings of x as int8; empty where the product takes x as float32.
    * ``few``: False leaves out the dispatches for few rows.
    """
    ranges: dict[str, Range | bytes] = {"m": m.params, "w": m.at, **extra}
    flags = {"BIAS": "bias" in extra, "RESIDUAL": "residual" in extra, "CODED": "x_codes" in extra,
             "ROW_KIND": rows_word(rows)}
    if few:
        few_rows(low, m, m.n_groups, rows, ranges, flags)
    if low.most(rows) > FEW_ROWS:
        kernel, taken = "matmul", ranges
        if coded and low.target.family.has_codes(m.quant):
            kernel = "matmul_coded"
            taken = {**{name: r for name, r in ranges.items() if name != "x"}, **coded}
        for wide in (False, True):
            tm, tn = TILES[kernel, wide]
            # Workgroup memory that every device has holds two small tiles, or one wide tile.
            low.emit(kernel, _tiles(m, rows, kernel, wide=wide), TILE_THREADS, taken, {
                "TM": tm, "TN": tn, "BUFFERS": 1 if wide else 2, "DOUBLE": not wide, **flags,
                **m.constants}, quant=m.quant)


def few_rows(low: Lowering, m: Matrix, n_groups: int, rows: str, ranges: Ranges,
             flags: Constants) -> None:
    """Append dispatches for up to :data:`FEW_ROWS` rows of x: for one row, and for four at a
    time."""
    second = bool(flags.get("SECOND"))
    for n_together, from_rows, to_rows in ((1, 1, 1), (4, 2, FEW_ROWS)):
        if low.most(rows) < from_rows:
            continue
        grid = _groups(n_groups, rows, n_together, from_rows, to_rows)
        low.emit("matvec", grid, m.threads(n_together), ranges, {
            "R": ROWS_PER_GROUP, "NT": n_together,
            "ALL_OUT": (1 + second) * ROWS_PER_GROUP * n_together, **flags, **m.constants},
            quant=m.quant)


def _tiles(m: Matrix, rows: str, kernel: str, *, wide: bool) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        tm, tn = TILES[kernel, True]
        fills = -(-m.n_rows // tm) * -(-n // tn) >= ENOUGH_TILES
        if n <= FEW_ROWS or fills != wide:
            return None
        tm, tn = TILES[kernel, wide]
        return *fold(-(-m.n_rows // tm)), -(-n // tn)

    return grid


def _groups(n_groups: int, rows: str, n_together: int, from_rows: int, to_rows: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if not from_rows <= n <= to_rows:
            return None
        return *fold(n_groups), -(-n // n_together)

    return grid
