"""Dispatches of :class:`~unladen.graph.ops.rms_norm.RmsNorm`."""

from __future__ import annotations

from unladen.backends._gpu.joining import only_few_coded
from unladen.backends._gpu.lowering._norm import norm
from unladen.backends._gpu.lowering._tiles import run_constants
from unladen.backends._gpu.lowering.base import (
    ANY,
    Lowering,
    OpLowering,
    n_cols,
    numbers,
    symbol,
    threads_for,
)
from unladen.backends._gpu.lowering.linear import most_few
from unladen.backends._gpu.target import Constants
from unladen.graph.graph import Node
from unladen.graph.ops.norm_groups import group_of

MOST_KEPT = 8
"""The most items of a row that a thread keeps in registers instead of reading them again."""

NORM_QUANTIZE = "norm_quantize"
"""The kernel that also rounds a row to int8."""


class RmsNorm(OpLowering):
    """A workgroup for each group. A thread reads four columns at once where sizes allow it. Rows
    that only products with int8 codes read are rounded at once, on some devices only few rows."""

    op = "rms_norm"
    kernels = frozenset({"rms_norm"})
    features = frozenset({"subgroups"})

    def lower(self, low: Lowering, node: Node) -> None:
        within = ANY
        if node.outputs[0] in low.rounded:
            y = node.outputs[0]
            if not only_few_coded(low.target):
                _rounded(low, node, ANY)
                return
            reader = next(each for each in low.segment.nodes if y in each.inputs)
            most = low.few_rounded[y] = most_few(low, reader)
            _rounded(low, node, range(1, most + 1))
            if low.most(symbol(y)) <= most:
                return
            within = range(most + 1, ANY.stop)
        size = group_of(node)
        lengths = [size, *(w.n_elements for w in node.weights.values())]
        at_once = 4 if all(n % 4 == 0 for n in lengths) else 1
        norm(low, node, at_once, {"FOURS": at_once == 4, **_kept(size, at_once)}, within)


def _rounded(low: Lowering, node: Node, within: range) -> None:
    """Append the dispatch that rounds the rows at once; nothing else is stored of them. ``within``:
    the numbers of rows with which a step needs it."""
    (x,), (y,) = node.inputs, node.outputs
    codes, scales = low.codes(y)
    tiles = any(low.reads_tiles(each) for each in low.segment.nodes if y in each.inputs)
    kept = _kept(n_cols(y), 4)
    low.one_each(NORM_QUANTIZE, y, 1, threads_for(n_cols(y)), {
        "params": numbers(n_cols(y), node.float_attr("eps")), "x": low.value(x), "codes": codes,
        "scales": scales, **{role: low.vector(node, role) for role in node.weights}},
                 {"WEIGHT": "w" in node.weights, **run_constants(low, 2 if tiles else 1), **kept},
                 within)


def _kept(size: int, at_once: int) -> Constants:
    """The constants that say how many items of ``at_once`` columns a thread keeps of a row of
    ``size`` columns, and whether the row has more."""
    n_items = -(-size // (at_once * threads_for(size)))
    return {"KEPT": min(MOST_KEPT, n_items), "LONGER": n_items > MOST_KEPT}
