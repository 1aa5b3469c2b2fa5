"""Products of two weights with one x, ``act(x w0^T) * (x w1^T)``."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering import _skinny
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix, matrices
from unladen.backends._gpu.lowering._products import (
    Prepared,
    coded_tiles,
    few_constants,
    few_rows,
    product,
    without_x,
)
from unladen.backends._gpu.lowering.base import (
    ELEMENT_THREADS,
    Lowering,
    activation_flag,
    n_cols,
    numbers,
    rows_word,
    symbol,
)
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import ALIGNMENT, Constants, Range
from unladen.graph.graph import Node
from unladen.quants.tiles import ROWS
from unladen.types import Limits

BAND = 2 * ROWS
"""Rows of each weight that a workgroup multiplies with few rows of x where weights are in tiles:
those whose products share a scale as int8."""
LONG_ROW = 2048
"""From so many columns on, a workgroup has 256 threads for its four tiles, else 128."""


def gated(low: Lowering, node: Node, coded: Prepared, x: Ranges, many: Ranges, most: int) -> None:
    """Append ``act(x w0^T) * (x w1^T)``. Few rows, up to ``most``, take one kernel. For many rows,
    two products are written to scratch memory, and the kernel of ``glu`` reads them.

    * ``x``: the bindings of x for few rows.
    * ``many``: those for many rows.
    """
    y = node.outputs[0]
    rows = symbol(y)
    whole: Ranges = {"y": low.value(y)}
    both = matrices(low, node, "w0"), matrices(low, node, "w1")
    biases: dict[str, Range | bytes] = {
        name: low.vector(node, role) for name, role in (("bias", "b0"), ("bias1", "b1"))
        if role in node.weights}
    together = _is_together(node, both)
    if together:
        flags = {"W1": True, "BIAS": "bias" in biases, "BIAS1": "bias1" in biases,
                 "ROW_KIND": rows_word(rows), **activation_flag(node.attrs["act"])}
        banded = _is_banded(low, both)
        rounds = banded and bool(low.segment.stored.get(y))
        out = whole
        if rounds:
            low.rounded.add(y)
            low.few_rounded[y] = FEW_ROWS
            codes, scales = low.codes(y)
            out = {"y_codes": codes, "y_scales": scales}
        for a, b in zip(*both, strict=True):
            ranges: dict[str, Range | bytes] = {"m": a.params, "w": a.at, "w1": b.at, **x, **biases}
            if banded:
                _in_bands(low, a, rows, {**ranges, **out}, {**flags, "ROUNDED": rounds}, coded)
                _skinny.products(low, [a], rows, {**without_x(ranges), **whole},
                                 {"SECOND": True, **flags}, coded.form, most,
                                 coded=coded_tiles(low, a, coded), after=FEW_ROWS)
            else:
                few_rows(low, [a], rows, {**ranges, **whole}, {"SECOND": True, **flags}, coded,
                         most)
    _apart(low, node, both, coded, many, most, few=not together)


def is_banded(low: Lowering, node: Node) -> bool:
    """Whether the kernel for tiles of both weights multiplies up to :data:`FEW_ROWS` rows of x."""
    if "act" not in node.attrs:
        return False
    both = matrices(low, node, "w0"), matrices(low, node, "w1")
    return _is_together(node, both) and _is_banded(low, both)


def _is_together(node: Node, both: Sequence[Sequence[Matrix]]) -> bool:
    # Weights of different formats, or in different places, may be cut into other pieces.
    cuts = [[(m.quant, m.in_tiles, m.first_row, m.n_rows) for m in found] for found in both]
    return cuts[0] == cuts[1] and "residual" not in node.attrs


def _is_banded(low: Lowering, both: Sequence[Sequence[Matrix]]) -> bool:
    return "mma" in low.features and all(
        m.in_tiles and m.first_row % BAND == m.n_rows % BAND == 0 for m in both[0])


def _in_bands(low: Lowering, m: Matrix, rows: str, ranges: Ranges, flags: Constants, x: Prepared
              ) -> None:
    """Append dispatches for up to :data:`FEW_ROWS` rows of x: for one row, and for four at a
    time."""
    coded = coded_tiles(low, m, x)
    taken = {**without_x(ranges), **(x.few or x.coded)} if coded else ranges
    for n_together, from_rows, to_rows in ((1, 1, 1), (4, 2, FEW_ROWS)):
        if low.most(rows) >= from_rows:
            low.emit("gated_rows", _bands(m, rows, n_together, from_rows, to_rows),
                     256 if m.n_in >= LONG_ROW else 128, taken,
                     {**few_constants(m, n_together, flags, coded=coded), **flags}, quant=m.quant)


def _bands(m: Matrix, rows: str, n_together: int, from_rows: int, to_rows: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if not from_rows <= n <= to_rows:
            return None
        return *fold(m.n_rows // BAND), -(-n // n_together)

    return grid


def _apart(low: Lowering, node: Node, both: Sequence[Sequence[Matrix]], coded: Prepared,
           x: Ranges, most: int, *, few: bool) -> None:
    y = node.outputs[0]
    rows, cols = symbol(y), n_cols(y)
    if not few and low.most(rows) <= most:
        return
    size = _product_bytes(low.segment.limits, node)
    halves = [low.scratch(i * size, size) for i in range(2)]
    for i, found in enumerate(both):
        extra: dict[str, Range | bytes] = {**x, "y": halves[i]}
        if f"b{i}" in node.weights:
            extra["bias"] = low.vector(node, f"b{i}")
        for m in found:
            product(low, m, rows, extra, coded, few=few, most=most)

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if n == 0 or (not few and n <= most):
            return None
        return *fold(-(-n * cols // ELEMENT_THREADS)), 1

    # A dispatch must not bind a range twice where it writes to it, so the sum has another place.
    is_last = "residual" not in node.attrs
    out = low.value(y) if is_last else low.scratch(2 * size, size)
    # The fields of glu's Params: one gate for each column, no limit, no offset.
    params = numbers(cols, 1, 0.0, 0.0, 0.0)
    low.emit("glu", grid, ELEMENT_THREADS,
             {"params": params, "a": halves[0], "b": halves[1], "y": out},
             {"ROW_KIND": rows_word(rows), **activation_flag(node.attrs["act"])})
    if not is_last:
        low.emit("add", grid, ELEMENT_THREADS, {
            "params": numbers(cols), "a": out, "b": low.value(node.inputs[-1]),
            "y": low.value(y)}, {"ROW_KIND": rows_word(rows)})


def gated_scratch(limits: Limits, node: Node) -> int:
    """Bytes for both products of a gated unit, and for its result where a residual is added."""
    n = 0 if "act" not in node.attrs else 3 if "residual" in node.attrs else 2
    return n * _product_bytes(limits, node)


def _product_bytes(limits: Limits, node: Node) -> int:
    return -(-4 * limits.count(node.outputs[0].shape) // ALIGNMENT) * ALIGNMENT
