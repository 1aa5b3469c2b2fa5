"""Products of one matrix with rows of x. Their number decides which kernel runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering import _skinny, _tiles
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix
from unladen.backends._gpu.lowering.base import Lowering, rows_word
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Constants, Range

PLAIN_KERNELS = frozenset({"matvec", "matmul"})
"""The kernels of :func:`product` that read x as float32."""
CODED_KERNELS = frozenset({"quantize", "matmul_coded"})
"""The kernels that round x to int8, and that multiply x rounded to int8."""
TILES = MappingProxyType({"matmul": ((16, 64), (64, 64), (128, 128)),
                          "matmul_coded": ((64, 64), (128, 64))})
"""Rows of w and of x in a workgroup's tile, by kernel, from small to wide."""
SEVERAL_ROWS = 4
"""How many rows of x a workgroup multiplies with each weight that it decodes, at most."""
UNIT_ROWS = 8
"""The same where matrix units multiply rows as int8: a fragment has so many."""
MIN_GROUPS = 2
"""The workgroups for which a multiprocessor must have registers, in products of tiles with one row
of x, and with x as int8. With so many, NVIDIA's compiler spills nothing, and issues all loads of a
subgroup's chunks before it uses one if there is one row."""
TILE_THREADS = 256
"""Threads of a workgroup that computes a tile."""
ENOUGH_TILES = 128
"""How many tiles fill a large GPU. A product with fewer uses smaller ones."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Bindings of x in the forms that kernels multiply, where a dispatch made them before.

    * ``coded``: as int8; empty where the node takes x as float32.
    * ``few``: as int8 for up to ``few_most`` rows, where ``coded`` is for more rows alone.
    * ``split``: as sums of numbers of 16 bits, by the form's name (:data:`_tiles.PARTS`).
    """

    coded: Ranges = field(default_factory=dict)
    few: Ranges = field(default_factory=dict)
    few_most: int = 0
    split: Mapping[str, Ranges] = field(default_factory=dict)

    def form(self, kind: str, n_rows: int) -> Ranges:
        """Bindings of x for up to ``n_rows`` rows in the form ``kind``; "" is int8."""
        if kind:
            return self.split[kind]
        return self.few if n_rows <= self.few_most else self.coded


NOT_PREPARED = Prepared()


def product(low: Lowering, m: Matrix, rows: str, extra: Ranges, x: Prepared = NOT_PREPARED,
            *, few: bool = True, most: int = FEW_ROWS) -> None:
    """Append the dispatches of ``m`` times the rows of x.

    * ``rows``: the symbol that counts the rows of x.
    * ``extra``: bindings of x, y and what is added before y is stored.
    * ``x``: x in other forms.
    * ``few``: False leaves out the dispatches for few rows.
    * ``most``: up to how many rows are few.
    """
    ranges: dict[str, Range | bytes] = {"m": m.params, "w": m.at, **extra}
    flags = {"BIAS": "bias" in extra, "RESIDUAL": "residual" in extra,
             "ROW_KIND": rows_word(rows)}
    if few:
        own = {**without_x(ranges), **x.few} if x.few else ranges
        few_rows(low, [m], rows, own, flags, x, most)
    if low.most(rows) <= most:
        return
    if m.in_tiles:
        _by_matrix_units(low, m, rows, ranges, flags, x, most)
        return
    kernel, taken = "matmul", ranges
    if x.coded and low.target.family.has_codes(m.quant):
        kernel = "matmul_coded"
        taken = {**without_x(ranges), **x.coded}
    sizes = TILES[kernel]
    for i, (tm, tn) in enumerate(sizes):
        # Workgroup memory that every device has holds two tiles of other sizes, or one wide tile.
        is_wide = i + 1 == len(sizes)
        low.emit(kernel, _tiles_grid(m, rows, sizes, i, most), TILE_THREADS, taken, {
            "TM": tm, "TN": tn, "BUFFERS": 1 if is_wide else 2, "DOUBLE": not is_wide, **flags,
            **m.constants}, quant=m.quant)


def few_rows(low: Lowering, pieces: Sequence[Matrix], rows: str, ranges: Ranges, flags: Constants,
             x: Prepared = NOT_PREPARED, most: int = FEW_ROWS) -> None:
    """Append dispatches of matrices of one format for up to ``most`` rows of x: for one row, for
    several at a time, and for more by :mod:`._skinny`."""
    m, n_groups = pieces[0], sum(each.n_groups for each in pieces)
    coded = coded_tiles(low, m, x)
    taken = {**without_x(ranges), **(x.few or x.coded)} if coded else ranges
    flags = {**flags, "CODED": "x_codes" in ranges and not m.in_tiles}
    by_units = coded and "mma" in low.features
    several = UNIT_ROWS if by_units else SEVERAL_ROWS
    last = most
    if m.in_tiles and "mma" in low.features:
        last = _skinny.products(low, pieces, rows, without_x(ranges), flags, x.form, most,
                                coded=coded)
    elif m.in_tiles:
        last = low.most(rows)
    for n_together, from_rows, to_rows in ((1, 1, 1), (several, 2, last)):
        if low.most(rows) < from_rows:
            continue
        grid = _groups(n_groups, rows, n_together, from_rows, to_rows)
        # A thread stores one number.
        threads = max(m.threads(n_together), m.rows_per_group * n_together if by_units else 0)
        low.emit("matvec", grid, threads, taken,
                 {**few_constants(m, n_together, flags, coded=coded), **flags,
                  "BY_UNITS": by_units and n_together > 1}, quant=m.quant)


def few_constants(m: Matrix, n_together: int, flags: Constants, *, coded: bool) -> Constants:
    """The constants of kernels that multiply the rows of ``m`` with ``n_together`` rows of x.
    ``coded``: tiles meet x as int8."""
    n = m.rows_per_group * n_together
    known = {"R": m.rows_per_group, "NT": n_together,
             "ALL_OUT": (1 + bool(flags.get("SECOND"))) * n, **m.constants}
    if not m.in_tiles:
        return known
    together = {"MIN_GROUPS": MIN_GROUPS} if coded or n_together == 1 else {}
    return {**known, "INT_DOT": coded, **together}


def coded_tiles(low: Lowering, m: Matrix, x: Prepared) -> bool:
    """Whether ``m`` is in tiles that meet x as int8."""
    return m.in_tiles and bool(x.few or x.coded) and low.target.family.has_codes(m.quant)


def without_x(ranges: Ranges) -> dict[str, Range | bytes]:
    """``ranges`` for a kernel that takes x in another form."""
    return {name: r for name, r in ranges.items() if name != "x"}


def _by_matrix_units(low: Lowering, m: Matrix, rows: str, ranges: Ranges, flags: Constants,
                     x: Prepared, most: int) -> None:
    """Append the dispatches of ``m``, which is in tiles, for more than ``most`` rows of x."""
    if "mma" not in low.features:
        return  # the kernel for few rows takes all of them
    form = _tiles.form_of(low, m, x.coded, x.split)
    tiles = [sizes.rows for sizes in form.sizes]
    for i, sizes in enumerate(form.sizes):
        grid = _tiles_grid(m, rows, tiles, i, most, by_width=form.by_warpgroups)
        low.emit("matmul_mma", grid, sizes.threads, {**without_x(ranges), **form.ranges},
                 {**sizes.constants, **form.constants, **flags, **m.constants}, quant=m.quant)


def _tiles_grid(m: Matrix, rows: str, tiles: Sequence[tuple[int, int]], i: int, most: int,
                *, by_width: bool = False) -> Grid:
    """The grid of tiles of size ``i`` of ``tiles``, from small to wide, for more than ``most`` rows
    of x. A step takes the widest that fill a large GPU. ``by_width``: none of which narrower ones
    have all rows of the step."""
    def is_taken(k: int, n: int) -> bool:
        tm, tn = tiles[k]
        narrower = max((other for _, other in tiles[:k] if other < tn), default=0)
        fills = -(-m.n_rows // tm) * -(-n // tn) >= ENOUGH_TILES
        return k == 0 or (fills and not (by_width and n <= narrower))

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if n <= most or max(k for k in range(len(tiles)) if is_taken(k, n)) != i:
            return None
        return *fold(-(-m.n_rows // tiles[i][0])), -(-n // tiles[i][1])

    return grid


def _groups(n_groups: int, rows: str, n_together: int, from_rows: int, to_rows: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if not from_rows <= n <= to_rows:
            return None
        return *fold(n_groups), -(-n // n_together)

    return grid
