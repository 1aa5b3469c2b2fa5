"""The forms in which experts' matrices in tiles meet x and hidden rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unladen.backends._gpu.joining import coded_bytes
from unladen.backends._gpu.lowering import _tiles
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix
from unladen.backends._gpu.lowering._products import Prepared, coded_tiles, few_constants, without_x
from unladen.backends._gpu.lowering.base import ANY, Lowering
from unladen.backends._gpu.target import Constants, Range
from unladen.graph.graph import Node
from unladen.quants import file_format, in_tiles

MATRICES = ("gate", "up", "gate_up", "down")
"""The roles of experts' matrices."""
Wanted = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that experts read: ``x`` has ``n_each`` of ``n_cols`` columns for each of the
    ``n_tokens`` rows of the largest step, which ``symbol`` counts."""

    symbol: str
    x: Range
    n_tokens: int
    n_each: int
    n_cols: int


def form_bytes(n_rows: int, n_cols: int) -> tuple[int, int]:
    """Bytes of the two parts of any form of ``n_rows`` rows: they are never needed together."""
    codes, split = coded_bytes(n_rows * n_cols), _tiles.split_bytes(n_rows, n_cols, "F16")
    return max(codes[0], split[0]), max(codes[1], split[1])


def prepare(low: Lowering, rows: Rows, matrices: list[Matrix], at: int, wanted: Wanted) -> Prepared:
    """Append the dispatch that brings rows into the form of ``matrices``, which are alike. ``at``:
    the place in scratch memory. ``wanted``: whether a step of so many rows needs it."""
    if not matrices[0].in_tiles:
        return Prepared()
    sizes = form_bytes(rows.n_tokens * rows.n_each, rows.n_cols)
    memory = low.scratch(at, sizes[0]), low.scratch(at + sizes[0], sizes[1])
    coded = "int_dot" in low.features and low.target.family.has_codes(matrices[0].quant)
    together = wanted(FEW_ROWS + 1)
    if coded and not (together and "wgmma" in low.features):
        return Prepared(_tiles.quantized(low, rows.symbol, rows.x, rows.n_each * rows.n_cols,
                                         memory, 2, wanted))
    if "mma" not in low.features or not together:
        return Prepared()
    kind = _tiles.HALF if coded else _tiles.part_kind(matrices[0].quant)
    return Prepared(split={kind: _tiles.split(low, rows.symbol, rows.x, (rows.n_each, rows.n_cols),
                                              kind, memory, range(FEW_ROWS + 1, ANY.stop))})


def needs_forms(node: Node) -> bool:
    """Whether any matrix of ``node`` may be in tiles."""
    found = [node.weights[role] for role in MATRICES if role in node.weights]
    return any(in_tiles(file_format(w.quant), w.shape) for w in found)


def one_each(low: Lowering, m: Matrix, ranges: dict[str, Range | bytes], flags: Constants,
             x: Prepared) -> tuple[dict[str, Range | bytes], Constants]:
    """Bindings and constants of a kernel that multiplies ``m`` with one row of x at a time."""
    coded = coded_tiles(low, m, x)
    taken = {**without_x(ranges), **x.coded} if coded else ranges
    return taken, {**few_constants(m, 1, flags, coded=coded), **flags}


def grouped(low: Lowering, m: Matrix, ranges: dict[str, Range | bytes], flags: Constants,
            x: Prepared) -> tuple[dict[str, Range | bytes], Constants, _tiles.Sizes]:
    """Bindings, constants and sizes of the kernel that multiplies ``m``, which is in tiles, with
    the rows that chose an expert."""
    form = _tiles.form_of(low, m, x.coded, x.split)
    sizes = form.grouped
    return {**without_x(ranges), **form.ranges}, {
        **sizes.constants, **form.constants, **m.constants, **flags}, sizes
