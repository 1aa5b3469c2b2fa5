"""Dispatches of :class:`~unladen.graph.ops.linear.Linear`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from unladen.backends._gpu.dispatch import Groups, Ranges, fold
from unladen.backends._gpu.joining import Written, code_bytes, only_few_coded
from unladen.backends._gpu.lowering import _tiles
from unladen.backends._gpu.lowering._cached import bindings, cached
from unladen.backends._gpu.lowering._matrix import Matrix, matrices
from unladen.backends._gpu.lowering._products import (
    CODED_KERNELS,
    PLAIN_KERNELS,
    Prepared,
    few_rows,
    product,
)
from unladen.backends._gpu.lowering._skinny import FORMS, form_name, most_few
from unladen.backends._gpu.lowering.base import (
    ANY,
    ELEMENT_THREADS,
    Lowering,
    OpLowering,
    activation_flag,
    n_cols,
    numbers,
    rows_word,
    symbol,
)
from unladen.backends._gpu.step import Size
from unladen.backends._gpu.target import ALIGNMENT, Range, Target
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
        most = most_few(low, self, node)
        coded = _prepared(low, node, most)
        if "act" in node.attrs:
            _gated(low, node, coded, most)
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
                form = FORMS[form_name(target.family, quant, coded="int_dot" in features)]
                found |= {form.after, *(shape.rows for shape in form.shapes), form.most + 1}
        return sorted(found - {1})

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes for both products of a gated unit, and for x as int8."""
        codes = 0 if options.precise else sum(code_bytes(node.inputs[0], limits))
        return _gated_scratch(limits, node) + codes

    def mma_scratch_bytes(self, node: Node, limits: Limits, features: Set[str]) -> int:
        """Bytes for x as sums of numbers of 16 bits."""
        kinds = _kinds(node, features, limits.count(node.inputs[0].shape[:-1]))
        return sum(sum(_tiles.split_bytes(rows, n_cols(node.inputs[0]), kind))
                   for kind, rows in kinds.items())


def _operand(low: Lowering, node: Node) -> Ranges:
    """The bindings of x for few rows: as int8 where its norm rounded it, else as float32."""
    x = node.inputs[0]
    if x not in low.rounded:
        return {"x": low.value(x)}
    codes, scales = low.codes(x)
    return {"x_codes": codes, "x_scales": scales}


def _many(low: Lowering, node: Node) -> Ranges:
    """The bindings of x for many rows."""
    return {"x": low.value(node.inputs[0])} if only_few_coded(low.target) else _operand(low, node)


def _kinds(node: Node, features: Set[str], n_rows: int) -> Mapping[str, int]:
    """The forms of x as sums of numbers of 16 bits that the weights of ``node`` may need, and how
    many of the ``n_rows`` rows of the largest step are brought into each."""
    weights, coded = node.weights.values(), "int_dot" in features
    few = {kind: min(n_rows, FORMS[kind].most)
           for kind in _tiles.kinds_of(weights, coded=coded, by_warpgroups=False)}
    many = _tiles.kinds_of(weights, coded=coded, by_warpgroups="wgmma" in features)
    return {**few, **dict.fromkeys(many, n_rows)}


def _prepared(low: Lowering, node: Node, most: int) -> Prepared:
    """Append the dispatches that bring x into the forms that the weights are multiplied with, up to
    ``most`` rows in those for few."""
    few = _operand(low, node) if node.inputs[0] in low.rounded else {}
    if few and not only_few_coded(low.target):
        return Prepared(few)
    at = _gated_scratch(low.segment.limits, node)
    coded = _quantized(low, node, at, most, few=not few)
    if "mma" not in low.features:
        return Prepared(coded, few)
    x, split = node.inputs[0], {}
    n_rows = low.most(symbol(x))
    at += 0 if low.segment.options.precise else sum(code_bytes(x, low.segment.limits))
    for kind, rows in _kinds(node, low.features, n_rows).items():
        within = range(FORMS[kind].after + 1 if kind in FORMS else most + 1,
                       most + 1 if rows < n_rows else ANY.stop)
        sizes = _tiles.split_bytes(rows, n_cols(x), kind)
        if n_rows in range(within.start, ANY.stop):
            memory = low.scratch(at, sizes[0]), low.scratch(at + sizes[0], sizes[1])
            split[kind] = _tiles.split(low, symbol(x), low.value(x), (1, n_cols(x)), kind, memory,
                                       within)
        at += sum(sizes)
    return Prepared(coded, few, split)


def _quantized(low: Lowering, node: Node, at: int, most: int, *, few: bool) -> Ranges:
    """Append a dispatch that rounds x to int8 for all weights, and return the bindings of the
    result; empty where no weight is multiplied so. ``at``: the place in scratch memory. ``few``:
    whether few rows, up to ``most``, are rounded so, too, if weights in tiles need it."""
    x = node.inputs[0]
    tiles = low.reads_tiles(node)
    few = few and tiles
    if "int_dot" not in low.features or (low.most(symbol(x)) <= most and not few):
        return {}
    codes, scales = code_bytes(x, low.segment.limits)
    return _tiles.quantized(low, symbol(x), low.value(x), n_cols(x),
                            (low.scratch(at, codes), low.scratch(at + codes, scales)),
                            2 if tiles else 1, lambda n: few or n > most)


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


def _gated(low: Lowering, node: Node, coded: Prepared, most: int) -> None:
    """Append ``act(x w0^T) * (x w1^T)``. Few rows, up to ``most``, take one kernel. For many rows,
    two products are written to scratch memory, and the kernel of ``glu`` reads them."""
    y = node.outputs[0]
    rows, out = symbol(y), low.value(y)
    both = matrices(low, node, "w0"), matrices(low, node, "w1")
    biases: dict[str, Range | bytes] = {
        name: low.vector(node, role) for name, role in (("bias", "b0"), ("bias1", "b1"))
        if role in node.weights}
    # Weights of different formats, or in different places, may be cut into other pieces.
    cuts = [[(m.quant, m.in_tiles, m.first_row, m.n_rows) for m in found] for found in both]
    together = cuts[0] == cuts[1] and "residual" not in node.attrs
    if together:
        for a, b in zip(*both, strict=True):
            ranges: dict[str, Range | bytes] = {"m": a.params, "w": a.at, "w1": b.at, "y": out,
                                                **_operand(low, node), **biases}
            few_rows(low, [a], rows, ranges, {
                "SECOND": True, "W1": True, "BIAS": "bias" in biases, "BIAS1": "bias1" in biases,
                "ROW_KIND": rows_word(rows), **activation_flag(node.attrs["act"])}, coded, most)
    _gated_apart(low, node, both, coded, most, few=not together)


def _gated_apart(low: Lowering, node: Node, both: Sequence[Sequence[Matrix]], coded: Prepared,
                 most: int, *, few: bool) -> None:
    y = node.outputs[0]
    rows, cols = symbol(y), n_cols(y)
    if not few and low.most(rows) <= most:
        return
    size = _product_bytes(low.segment.limits, node)
    halves = [low.scratch(i * size, size) for i in range(2)]
    for i, found in enumerate(both):
        extra: dict[str, Range | bytes] = {**_many(low, node), "y": halves[i]}
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


def _gated_scratch(limits: Limits, node: Node) -> int:
    """Bytes for both products of a gated unit, and for its result where a residual is added."""
    n = 0 if "act" not in node.attrs else 3 if "residual" in node.attrs else 2
    return n * _product_bytes(limits, node)


def _product_bytes(limits: Limits, node: Node) -> int:
    return -(-4 * limits.count(node.outputs[0].shape) // ALIGNMENT) * ALIGNMENT
