"""Products of weights in tiles with few rows of x by matrix units: a workgroup multiplies 16 or 32
rows of a weight, read once, with all rows of x."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering import _tiles
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix
from unladen.backends._gpu.lowering.base import Lowering
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Constants, Family
from unladen.quants.tiles import ROWS


@dataclass(frozen=True, slots=True)
class Shape:
    """Workgroups for up to ``rows`` rows of x.

    * ``apart``: so many workgroups share these rows, and read the same rows of a weight.
    * ``warps``: the most that share the tiles of a row's columns.
    * ``stages``: how many of a warp's turns of x the workgroup's memory holds.
    * ``enough``: with so many bands of 16 rows of a weight a workgroup takes two of them, so that
      half as many workgroups read x.
    * ``early``: a turn's words of weights are loaded in the turn before.
    * ``min_groups``: a multiprocessor has registers for so many workgroups.
    """

    rows: int
    warps: int
    stages: int
    enough: int = 128
    early: bool = False
    apart: int = 1
    min_groups: int = 2

    @property
    def constants(self) -> Constants:
        """The constants of the kernel."""
        return {"NT": self.rows // self.apart, "X_GROUPS": self.apart, "STAGES": self.stages,
                "EARLY": self.early, "MIN_GROUPS": self.min_groups}

    def threads(self, n_tiles: int) -> int:
        """Threads of a workgroup for rows of ``n_tiles``: the fewest warps with which none has more
        tiles than with the most."""
        return _tiles.WARP * -(-n_tiles // -(-n_tiles // self.warps))


@dataclass(frozen=True, slots=True)
class Form:
    """``after``: the most rows of x that kernels without matrix units multiply. ``shapes``: those
    for more rows, from few to many, with workgroups of 48 KiB at most."""

    after: int
    shapes: Sequence[Shape]

    @property
    def most(self) -> int:
        """The most rows of x."""
        return self.shapes[-1].rows


FORMS: Mapping[str, Form] = MappingProxyType({
    "": Form(FEW_ROWS, (Shape(16, 8, 2, early=True, min_groups=1),
                        Shape(32, 8, 2, min_groups=1),
                        Shape(64, 8, 2, min_groups=1, apart=2))),
    "F16": Form(4, (Shape(8, 8, 2), Shape(16, 4, 2))),
    "BF16": Form(4, (Shape(8, 8, 2), Shape(16, 4, 2)))})
"""By the format of the parts of x, "" for int8. To split x takes a dispatch of its own, and four
rows of x are multiplied without that. Up to eight rows as int8 share what `matvec` decodes."""


def form_name(family: Family, quant: str, *, coded: bool) -> str:
    """The name in :data:`FORMS` for weights in ``quant``. ``coded``: codes meet x as int8."""
    return "" if coded and family.has_codes(quant) else _tiles.part_kind(quant)


def products(low: Lowering, pieces: Sequence[Matrix], rows: str, ranges: Ranges, flags: Constants,
             form_of: Callable[[str, int], Ranges], most: int, *, coded: bool, after: int = 0
             ) -> int:
    """Append dispatches for matrices of one format, all in tiles, with up to ``most`` rows of x,
    and return how many rows are left to other kernels.

    * ``rows``: the symbol that counts the rows of x.
    * ``ranges``: all bindings but those of x.
    * ``form_of``: bindings of x by the name of its form, "" for int8, for up to so many rows.
    * ``coded``: x is int8.
    * ``after``: other kernels take at least so many rows.
    """
    m = pieces[0]
    name = form_name(low.target.family, m.quant, coded=coded)
    form = FORMS[name]
    fewest, n_tiles = max(after, form.after), m.n_in // int(m.constants["TILE_COLUMNS"])
    after = fewest
    for shape in (each for each in form.shapes if each.rows > fewest):
        if after >= min(most, low.most(rows)):
            break
        last = min(shape.rows, most)
        bands, each = _bands(pieces, shape, second=bool(flags.get("SECOND")))
        n_groups = shape.apart * sum(-(-m.n_rows // each) for m in pieces)
        low.emit("matvec_mma", _grid(n_groups, rows, after + 1, last),
                 shape.threads(n_tiles), {**ranges, **form_of(name, last)},
                 {**m.constants, **shape.constants, "R": each, "BANDS": bands, "SECOND": False,
                  "INT_DOT": not name, **(_tiles.part_constants(name) if name else {}), **flags},
                 quant=m.quant)
        after = shape.rows
    return fewest


def _bands(pieces: Sequence[Matrix], shape: Shape, *, second: bool) -> tuple[int, int]:
    """How many bands of 16 rows a workgroup multiplies, and how many rows of a weight these are.
    ``second``: one of the bands is of the second weight of a gated unit."""
    if second:
        return 2, ROWS
    bands = 2 if sum(m.n_groups for m in pieces) >= shape.enough else 1
    return bands, ROWS * bands


def _grid(n_groups: int, rows: str, fewest: int, most: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        return (*fold(n_groups), 1) if fewest <= size.rows(rows) <= most else None

    return grid


