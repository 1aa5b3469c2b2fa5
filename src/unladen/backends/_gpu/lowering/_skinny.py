"""Products of weights in tiles with few rows of x by matrix units: a workgroup multiplies 16 or 32
rows of a weight, read once, with all rows of x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering import _tiles
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix
from unladen.backends._gpu.lowering.base import Lowering, OpLowering
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import Constants, Family
from unladen.graph.graph import Node
from unladen.graph.ops.linear import n_weights
from unladen.quants import file_format
from unladen.quants.tiles import ROWS

ENOUGH_BANDS = 128
"""With so many bands of 16 rows a workgroup takes two of them where it has more than
:data:`FEW_ROWS` rows of x, so that half as many workgroups read x."""
LONG_ROW = 1024
"""Rows with fewer columns are shared by :data:`FEWEST_WARPS`."""
FEWEST_WARPS = 4
"""The fewest warps that share a row's columns: as many as a tile has chunks of 64 columns."""
MIN_GROUPS = 2
"""Workgroups that a multiprocessor has registers for at least."""


@dataclass(frozen=True, slots=True)
class Shape:
    """``rows``: the most rows of x of a workgroup, which holds as many. ``warps``: how many share
    the columns. ``stages``: how many of a warp's turns of x the workgroup's memory holds."""

    rows: int
    warps: int
    stages: int

    def warps_for(self, n_in: int) -> int:
        """How many warps share ``n_in`` columns."""
        return self.warps if n_in >= LONG_ROW else min(self.warps, FEWEST_WARPS)


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
    "": Form(1, (Shape(8, 8, 3), Shape(16, 8, 2), Shape(32, 8, 2), Shape(64, 4, 2))),
    "F16": Form(4, (Shape(8, 8, 2), Shape(16, 4, 2))),
    "BF16": Form(4, (Shape(8, 8, 2), Shape(16, 4, 2)))})
"""By the format of the parts of x, "" for int8. To split x takes a dispatch of its own, and four
rows of x are multiplied without that."""


def form_name(family: Family, quant: str, *, coded: bool) -> str:
    """The name in :data:`FORMS` for weights in ``quant``. ``coded``: codes meet x as int8."""
    return "" if coded and family.has_codes(quant) else _tiles.part_kind(quant)


def most_few(low: Lowering, how: OpLowering, node: Node) -> int:
    """Up to how many rows of x the product ``node``, of the lowering ``how``, takes its kernels for
    few rows. Products that share rows which a norm rounded agree."""
    x = node.inputs[0]
    sharing = [n for n in low.segment.nodes if x in n.inputs] if x in low.rounded else [node]
    return min(_own_most(low, how, each) for each in sharing)


def _own_most(low: Lowering, how: OpLowering, node: Node) -> int:
    used, most = low.features_of(how, node), []
    for i in range(n_weights(node)):
        quant = low.placed(node, f"w{i}").quant
        if "mma" not in used or file_format(quant) == quant:
            return FEW_ROWS
        name = form_name(low.target.family, file_format(quant), coded="int_dot" in used)
        most.append(FORMS[name].most)
    return min(most)


def products(low: Lowering, pieces: Sequence[Matrix], rows: str, ranges: Ranges, flags: Constants,
             forms: Mapping[str, Ranges], most: int) -> int:
    """Append dispatches for matrices of one format, all in tiles, with up to ``most`` rows of x,
    and return how many rows are left to kernels without matrix units.

    * ``rows``: the symbol that counts the rows of x.
    * ``ranges``: all bindings but those of x.
    * ``forms``: bindings of x by the name of its form; "" is int8.
    """
    first = pieces[0]
    name = form_name(low.target.family, first.quant, coded="" in forms)
    form = FORMS[name]
    after, second = form.after, bool(flags.get("SECOND"))
    for shape in form.shapes:
        if after >= min(most, low.most(rows)):
            break
        n_bands = sum(m.n_groups for m in pieces)
        bands = 2 if second or (shape.rows > FEW_ROWS and n_bands >= ENOUGH_BANDS) else 1
        n_together = ROWS if second else ROWS * bands
        n_groups = sum(-(-m.n_rows // n_together) for m in pieces)
        constants: dict[str, int | bool] = {
            "R": n_together, "NT": shape.rows, "BANDS": bands, "STAGES": shape.stages,
            "MIN_GROUPS": MIN_GROUPS, "INT_DOT": not name, "SECOND": second,
            **(_tiles.part_constants(name) if name else {})}
        low.emit("matvec_mma", _grid(n_groups, rows, after + 1, min(shape.rows, most)),
                 _tiles.WARP * shape.warps_for(first.n_in), {**ranges, **forms[name]},
                 {**first.constants, **constants, **flags}, quant=first.quant)
        after = shape.rows
    return form.after


def _grid(n_groups: int, rows: str, fewest: int, most: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        return (*fold(n_groups), 1) if fewest <= size.rows(rows) <= most else None

    return grid


