"""Dispatches of :class:`~unladen.graph.ops.linear.Linear`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from unladen.backends._gpu.dispatch import Ranges
from unladen.backends._gpu.joining import Written, code_bytes
from unladen.backends._gpu.lowering import _skinny, _tiles
from unladen.backends._gpu.lowering._cached import bindings, cached
from unladen.backends._gpu.lowering._gated import gated, gated_scratch, is_banded
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix, matrices
from unladen.backends._gpu.lowering._products import (
    CODED_KERNELS,
    PLAIN_KERNELS,
    Prepared,
    few_rows,
    product,
)
from unladen.backends._gpu.lowering.base import (
    ANY,
    Lowering,
    OpLowering,
    n_cols,
    numbers,
    rows_word,
    symbol,
)
from unladen.backends._gpu.target import Range, Target
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Node, Weight
from unladen.graph.ops.linear import n_weights
from unladen.quants import file_format
from unladen.types import Limits

MOST_BINDINGS = 13
"""How many ranges a product binds that has three weights, biases and a codebook, with the step's
words. A device that can bind fewer joins no products."""
ROUNDED_BINDINGS = 9
"""How many ranges a gated product binds that has biases and a codebook, and x as int8 from a norm.
A device that can bind fewer rounds no rows in norms."""
MOST_TOGETHER = 3
"""The most weights of one dispatch."""


class Linear(OpLowering):
    """For few rows, one dispatch multiplies two or three weights of a format; it also rotates
    queries and keys and stores keys and values in the cache where it can. For many rows, each
    weight is multiplied in tiles by a dispatch of its own."""

    op = "linear"
    kernels = PLAIN_KERNELS | CODED_KERNELS | {"glu", "add"}
    features = frozenset({"subgroups", "int_dot", "mma", "wgmma"})

    def reads_tiles(self, node: Node, weight: Weight) -> bool:
        return True

    def lower(self, low: Lowering, node: Node) -> None:
        most = most_few(low, node)
        coded = _prepared(low, node, most)
        if "act" in node.attrs:
            gated(low, node, coded, _operand(low, node), _many(low, node), most)
            return
        pieces = [matrices(low, node, f"w{i}") for i in range(n_weights(node))]
        written = cached(low, node, pieces, most)
        together = _together(low, pieces, fewest=2 if written is None else 1)
        for i, found in enumerate(pieces):
            extra: dict[str, Range | bytes] = {**_many(low, node), "y": low.value(node.outputs[i])}
            if f"b{i}" in node.weights:
                extra["bias"] = low.vector(node, f"b{i}")
            if "residual" in node.attrs:
                extra["residual"] = low.value(node.inputs[1])
            for m in found:
                product(low, m, symbol(node.outputs[i]), extra, coded,
                        few=not any(i in group for group in together), most=most)
        for group in together:
            _joined(low, node, {i: pieces[i][0] for i in group}, coded, written, most)

    def trial_rows(self, node: Node, target: Target, features: Set[str]) -> Sequence[int]:
        """The most rows of each kernel for few rows of tiles, and one row more."""
        found = set[int]()
        for weight in node.weights.values() if "mma" in features else ():
            quant = file_format(weight.quant)
            if quant != weight.quant:
                name = _skinny.form_name(target.family, quant, coded="int_dot" in features)
                form = _skinny.FORMS[name]
                found |= {form.after, *(shape.rows for shape in form.shapes), form.most + 1}
        return sorted(found)

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes for both products of a gated unit, and for x as int8."""
        codes = 0 if options.precise else sum(code_bytes(node.inputs[0], limits))
        return gated_scratch(limits, node) + codes

    def mma_scratch_bytes(self, node: Node, limits: Limits, features: Set[str]) -> int:
        """Bytes for x as sums of numbers of 16 bits."""
        kinds = _kinds(node, features, limits.count(node.inputs[0].shape[:-1]))
        return sum(sum(_tiles.split_bytes(rows, n_cols(node.inputs[0]), kind))
                   for kind, rows in kinds.items())


def most_few(low: Lowering, node: Node) -> int:
    """Up to how many rows of x the product ``node`` takes its kernels for few rows. Products that
    share rows which a norm rounded agree."""
    x = node.inputs[0]
    sharing = [n for n in low.segment.nodes if x in n.inputs] if x in low.rounded else [node]
    return min(_own_most(low, each) for each in sharing)


def _own_most(low: Lowering, node: Node) -> int:
    used, most = low.features_of(Linear(), node), []
    for i in range(n_weights(node)):
        quant = low.placed(node, f"w{i}").quant
        if "mma" not in used or file_format(quant) == quant:
            return FEW_ROWS
        name = _skinny.form_name(low.target.family, file_format(quant), coded="int_dot" in used)
        most.append(_skinny.FORMS[name].most)
    return min(most)


def _operand(low: Lowering, node: Node) -> Ranges:
    """The bindings of x for few rows: as int8 where what made it rounded it, else as float32."""
    x = node.inputs[0]
    if x not in low.rounded:
        return {"x": low.value(x)}
    codes, scales = low.codes(x)
    return {"x_codes": codes, "x_scales": scales}


def _many(low: Lowering, node: Node) -> Ranges:
    """The bindings of x for many rows."""
    x = node.inputs[0]
    return {"x": low.value(x)} if x in low.few_rounded else _operand(low, node)


def _kinds(node: Node, features: Set[str], n_rows: int) -> Mapping[str, int]:
    """The forms of x as sums of numbers of 16 bits that the weights of ``node`` may need, and how
    many of the ``n_rows`` rows of the largest step are brought into each."""
    weights, coded = node.weights.values(), "int_dot" in features
    few = {kind: min(n_rows, _skinny.FORMS[kind].most)
           for kind in _tiles.kinds_of(weights, coded=coded, by_warpgroups=False)}
    many = _tiles.kinds_of(weights, coded=coded, by_warpgroups="wgmma" in features)
    return {**few, **dict.fromkeys(many, n_rows)}


def _prepared(low: Lowering, node: Node, most: int) -> Prepared:
    """Append the dispatches that bring x into the forms that the weights are multiplied with, up to
    ``most`` rows in those for few."""
    x = node.inputs[0]
    few = _operand(low, node) if x in low.rounded else {}
    few_most = low.few_rounded.get(x, 0)
    if few and not few_most:
        return Prepared(few)
    at = gated_scratch(low.segment.limits, node)
    if x in low.attended:
        few, few_most = _joined_codes(low, node, most), most
    coded = _quantized(low, node, at, few_most, most)
    if "mma" not in low.features:
        return Prepared(coded, few, few_most)
    at += 0 if low.segment.options.precise else sum(code_bytes(x, low.segment.limits))
    return Prepared(coded, few, few_most, _split(low, node, at, most))


def _split(low: Lowering, node: Node, at: int, most: int) -> Mapping[str, Ranges]:
    """Append the dispatches that make x sums of numbers of 16 bits, and return their bindings by
    form. ``at``: the place in scratch memory."""
    x, found = node.inputs[0], {}
    n_rows, banded = low.most(symbol(x)), is_banded(low, node)
    for kind, rows in _kinds(node, low.features, n_rows).items():
        first = most + 1
        if kind in _skinny.FORMS:
            first = max(_skinny.FORMS[kind].after, FEW_ROWS if banded else 0) + 1
        sizes = _tiles.split_bytes(rows, n_cols(x), kind)
        if n_rows >= first:
            memory = low.scratch(at, sizes[0]), low.scratch(at + sizes[0], sizes[1])
            found[kind] = _tiles.split(low, symbol(x), low.value(x), (1, n_cols(x)), kind, memory,
                                       range(first, most + 1 if rows < n_rows else ANY.stop))
        at += sum(sizes)
    return found


def _joined_codes(low: Lowering, node: Node, most: int) -> Ranges:
    """The bindings of few rows of x as int8, which attention rounds where workgroups share keys.
    Appends a dispatch that rounds them in other steps."""
    x = node.inputs[0]
    return _tiles.quantized(low, symbol(x), low.value(x), n_cols(x), low.joined_codes(x), 2,
                            lambda n: n <= most, is_joined=True)


def _quantized(low: Lowering, node: Node, at: int, after: int, most: int) -> Ranges:
    """Append a dispatch that rounds x to int8 for all weights that meet it so, and return the
    bindings of the result; empty where there are none.

    * ``at``: the place in scratch memory.
    * ``after``: up to so many rows are rounded already.
    * ``most``: so many rows are few.
    """
    x = node.inputs[0]
    for_few, for_many = _meets_codes(low, node)
    n_rows = low.most(symbol(x))
    few = for_few and after < min(most, n_rows)
    many = for_many and n_rows > most
    if not (few or many):
        return {}
    codes, scales = code_bytes(x, low.segment.limits)
    return _tiles.quantized(low, symbol(x), low.value(x), n_cols(x),
                            (low.scratch(at, codes), low.scratch(at + codes, scales)),
                            2 if low.reads_tiles(node) else 1,
                            lambda n: many if n > most else few and n > after)


def _meets_codes(low: Lowering, node: Node) -> tuple[bool, bool]:
    """Whether a weight meets few rows of x, and many, as int8 that no norm made."""
    if "int_dot" not in low.features:
        return False, False
    placed = [low.placed(node, role) for role in node.weights]
    in_tiles = {file_format(each.quant) != each.quant for each in placed
                if low.target.family.has_codes(file_format(each.quant))}
    return True in in_tiles, bool(in_tiles - {True} if "wgmma" in low.features else in_tiles)


def _together(low: Lowering, pieces: list[list[Matrix]], fewest: int) -> list[list[int]]:
    """The node's weights, by number, in groups that one dispatch multiplies with few rows:
    ``fewest`` to three weights of a format, each in one piece."""
    if low.target.max_storage_buffers < MOST_BINDINGS:
        return []
    groups: dict[tuple[str, bool], list[int]] = {}
    for i, found in enumerate(pieces):
        if len(found) == 1:
            groups.setdefault((found[0].quant, found[0].in_tiles), []).append(i)
    cut = [group[at:at + MOST_TOGETHER] for group in groups.values()
           for at in range(0, len(group), MOST_TOGETHER)]
    return [group for group in cut if len(group) >= fewest]


def _joined(low: Lowering, node: Node, weights: Mapping[int, Matrix], coded: Prepared,
            written: Written | None, most: int) -> None:
    """Append one dispatch for the products of few rows, up to ``most``, with several weights of a
    format. ``written``: what it does besides."""
    ranges: dict[str, Range | bytes] = {
        # An element of the array takes 32 bytes, so each matrix is padded.
        "matrices": numbers(*(n for m in weights.values() for n in (*m.numbers, 0, 0, 0))),
        **_operand(low, node)}
    flags: dict[str, int | bool] = {"MATRICES": len(weights), "W1": len(weights) > 1,
                                    "W2": len(weights) == 3}
    if written is not None:
        more, constants = bindings(low, written, list(weights))
        ranges |= more
        flags |= constants
    for at, (i, m) in zip(("", "1", "2"), weights.items(), strict=False):
        ranges[f"w{at}"] = m.at
        if written is None:
            ranges[f"y{at}"] = low.value(node.outputs[i])
        if f"b{i}" in node.weights:
            ranges[f"bias{at}"] = low.vector(node, f"b{i}")
            flags[f"BIAS{at}"] = True
    rows = symbol(node.outputs[0])
    few_rows(low, list(weights.values()), rows, ranges,
             {**flags, "ROW_KIND": rows_word(rows)}, coded, most)
