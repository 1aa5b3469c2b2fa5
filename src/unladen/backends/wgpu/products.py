"""Everything that multiplies with a matrix: embed, linear, moe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unladen.backends.base import BackendOptions
from unladen.backends.wgpu.gpu import ALIGNMENT, Range
from unladen.backends.wgpu.lower import (
    BATCH_WORDS,
    ROWS_WORD,
    Lowering,
    Ranges,
    activation_flag,
    fold,
    n_cols,
    row_bytes,
    symbol,
)
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.program import Grid, Groups, Size
from unladen.backends.wgpu.source import Constants, has_codes
from unladen.graph.graph import Node
from unladen.graph.ops.linear import n_weights
from unladen.quants import get
from unladen.types import Limits

PLAIN_BLOCK = 32
"""Weights without blocks are taken so many at a time."""
FEW_ROWS = 8
"""Up to so many rows of x, a product reads each weight for all of them at once and is limited by
memory; beyond it pays to decode tiles."""
ROWS_PER_GROUP = 4
ROWS_PER_TILE = 64
TILES = MappingProxyType({
    ("matmul", True): (128, 128), ("matmul", False): (64, 64),
    ("matmul_coded", True): (128, 64), ("matmul_coded", False): (64, 64)})
"""Rows of w and of x in a workgroup's tile, wide or not."""
ENOUGH_TILES = 128
"""So many fill a large GPU: fewer wide ones give way to smaller ones."""
RUN = 16
"""Columns of x that share a scale where they are rounded to int8."""
NO_RANGES: Ranges = MappingProxyType({})
MOST_BINDINGS = 12
"""Storage buffers of a product with three weights, biases and a codebook, and the step's."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Some whole rows of a weight that one binding holds."""

    quant: str
    at: Range
    first_row: int
    n_rows: int
    n_out: int
    n_in: int

    @property
    def constants(self) -> Constants:
        """What the decoding kernels are compiled for."""
        block_size, block_bytes = get(self.quant).block_size, get(self.quant).block_bytes
        if block_size == 1:
            block_size, block_bytes = PLAIN_BLOCK, PLAIN_BLOCK * block_bytes
        aligned = block_bytes % 4 == 0 and row_bytes(self.quant, self.n_in) % 4 == 0
        quads = block_bytes % 16 == 0 and row_bytes(self.quant, self.n_in) % 16 == 0
        return {"BLOCK": block_size, "BLOCK_BYTES": block_bytes, "ALIGNED": aligned,
                "QUADS": quads, "RAGGED": self.n_in % block_size != 0}

    @property
    def threads(self) -> int:
        """Of a workgroup whose threads share a row's groups of 32."""
        return 64 if self.n_in > 32 * 32 else 32

    def threads_for(self, n_together: int) -> int:
        """Likewise where one row of x leaves each thread few numbers to hold."""
        return 128 if n_together == 1 and self.n_in >= 128 * 32 else self.threads

    @property
    def n_groups(self) -> int:
        """Workgroups that take its rows."""
        return -(-self.n_rows // ROWS_PER_GROUP)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The kernels' ``Matrix``."""
        return (self.first_row, self.n_rows, self.n_out, self.n_in,
                row_bytes(self.quant, self.n_in))

    def params(self, low: Lowering) -> int:
        """Where its numbers are."""
        return low.params(*self.numbers)


def matrices(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """The weight in ``role``: all of its rows, in as many pieces as the device needs."""
    placed = low.placed(node, role)
    n_in = placed.weight.shape[-1]
    n_out = placed.weight.n_elements // n_in
    pieces = of_gpu(placed.buffer).rows(placed.offset, row_bytes(placed.quant, n_in), n_out)
    return [Matrix(placed.quant, at, first, n, n_out, n_in) for at, first, n in pieces]


def embed(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.embed.Embed`."""
    (ids,), (y,) = node.inputs, node.outputs
    ids_word = BATCH_WORDS[low.segment.batch_inputs[ids]]
    for m in matrices(low, node, "w"):
        n_units = -(-m.n_in // 8)

        def grid(size: Size, n_units: int = n_units) -> Groups | None:
            return (-(-n_units // 64), size.rows(symbol(y)), 1) if size.rows(symbol(y)) else None

        low.emit("embed", grid, {"m": m.params(low), "w": m.at, "y": low.value(y)},
                 {"IDS": ids_word, **m.constants}, quant=m.quant)


def linear(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.linear.Linear`."""
    coded = _quantized(low, node)
    if "act" in node.attrs:
        _gated(low, node, coded)
        return
    pieces = [matrices(low, node, f"w{i}") for i in range(n_weights(node))]
    together = _together(low, pieces)
    for i, found in enumerate(pieces):
        extra: dict[str, Range | int] = {"x": low.value(node.inputs[0]),
                                         "y": low.value(node.outputs[i])}
        if f"b{i}" in node.weights:
            extra["bias"] = low.vector(node, f"b{i}")
        if "residual" in node.attrs:
            extra["residual"] = low.value(node.inputs[1])
        for m in found:
            product(low, m, symbol(node.outputs[i]), extra, coded,
                    few=not any(i in group for group in together))
    for group in together:
        _joined(low, node, {i: pieces[i][0] for i in group})


def _quantized(low: Lowering, node: Node) -> Ranges:
    """Where tiles find x as int8, once it was rounded for all weights; nothing where none takes it
    so."""
    x = node.inputs[0]
    rows, n_in = symbol(x), n_cols(x)
    if "int_dot" not in low.features or _most(low, rows) <= FEW_ROWS:
        return {}
    halves = 2 * _half_scratch(low.segment.limits, node) if "act" in node.attrs else 0
    codes, scales = _codes_bytes(low.segment.limits, node)
    found = {"x_codes": low.scratch(halves, codes), "x_scales": low.scratch(halves + codes, scales)}

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return (*fold(-(-n * n_in // (64 * RUN))), 1) if n > FEW_ROWS else None

    low.emit("quantize", grid, {"m": low.params(n_in), "x": low.value(x),
                                "codes": found["x_codes"], "scales": found["x_scales"]},
             {"ROWS": ROWS_WORD[rows]})
    return found


def _codes_bytes(limits: Limits, node: Node) -> tuple[int, int]:
    """Of int8 codes and of the scales and sums of their runs."""
    n = limits.count(node.inputs[0].shape)
    codes = -(-n // ALIGNMENT) * ALIGNMENT
    return codes, -(-codes // RUN) * 8


def _together(low: Lowering, pieces: list[list[Matrix]]) -> list[list[int]]:
    """Which of a node's weights one dispatch multiplies with few rows: two or three of a format, in
    one piece each."""
    if low.gpu.max_storage_buffers < MOST_BINDINGS:
        return []
    groups: dict[str, list[int]] = {}
    for i, found in enumerate(pieces):
        if len(found) == 1:
            groups.setdefault(found[0].quant, []).append(i)
    cut = [group[at:at + 3] for group in groups.values() for at in range(0, len(group), 3)]
    return [group for group in cut if len(group) > 1]


def _joined(low: Lowering, node: Node, parts: Mapping[int, Matrix]) -> None:
    """Products of few rows with several weights of a format, in one dispatch."""
    ranges: dict[str, Range | int] = {
        "parts": low.params(*(n for m in parts.values() for n in (*m.numbers, 0, 0, 0))),
        "x": low.value(node.inputs[0])}
    flags: dict[str, int | bool] = {"PARTS": len(parts), "W1": True, "W2": len(parts) == 3}
    for at, (i, m) in zip(("", "1", "2"), parts.items(), strict=False):
        ranges |= {f"w{at}": m.at, f"y{at}": low.value(node.outputs[i])}
        if f"b{i}" in node.weights:
            ranges[f"bias{at}"] = low.vector(node, f"b{i}")
            flags[f"BIAS{at}"] = True
    rows = symbol(node.outputs[0])
    _few_rows(low, next(iter(parts.values())), sum(m.n_groups for m in parts.values()), rows,
              ranges, {**flags, "ROWS": ROWS_WORD[rows]})


def product(low: Lowering, m: Matrix, rows: str, extra: Ranges, coded: Ranges = NO_RANGES,
            *, few: bool = True) -> None:
    """One matrix times the rows of x, by the kernel that suits their number. ``coded``: x as int8,
    for the weights that are multiplied so."""
    ranges: dict[str, Range | int] = {"m": m.params(low), "w": m.at, **extra}
    flags = {"BIAS": "bias" in extra, "RESIDUAL": "residual" in extra, "ROWS": ROWS_WORD[rows]}
    if few:
        _few_rows(low, m, m.n_groups, rows, ranges, flags)
    if _most(low, rows) > FEW_ROWS:
        kernel = "matmul_coded" if coded and has_codes(m.quant) else "matmul"
        for wide in (False, True):
            tm, tn = TILES[kernel, wide]
            # Two small tiles fit into the workgroup memory that every device has; of the large
            # one there is one.
            low.emit(kernel, _tiles(m, rows, kernel, wide=wide), {**ranges, **coded}, {
                "TM": tm, "TN": tn, "BUFFERS": 1 if wide else 2, "DOUBLE": not wide, **flags,
                **m.constants}, quant=m.quant)


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


def _most(low: Lowering, rows: str) -> int:
    return low.segment.limits.bind("T" if rows == "T" else "S")


def _few_rows(low: Lowering, m: Matrix, n_groups: int, rows: str, ranges: Ranges,
              flags: Constants) -> None:
    second = bool(flags.get("SECOND"))
    for n_together, from_rows, to_rows in ((1, 1, 1), (4, 2, FEW_ROWS)):
        if _most(low, rows) < from_rows:
            continue
        grid = _groups(n_groups, rows, n_together, from_rows, to_rows)
        low.emit("matvec", grid, ranges, {
            "R": ROWS_PER_GROUP, "NT": n_together, "WG": m.threads_for(n_together),
            "ALL_OUT": (1 + second) * ROWS_PER_GROUP * n_together, **flags, **m.constants},
            quant=m.quant)


def _groups(n_groups: int, rows: str, n_together: int, from_rows: int, to_rows: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        if not from_rows <= n <= to_rows:
            return None
        return *fold(n_groups), -(-n // n_together)

    return grid


def _gated(low: Lowering, node: Node, coded: Ranges) -> None:
    """``act(x w0^T) * (x w1^T)``: in one kernel for few rows; for many, two products into scratch
    memory and the gated unit over them."""
    y = node.outputs[0]
    rows, x, out = symbol(y), low.value(node.inputs[0]), low.value(y)
    pairs = list(zip(matrices(low, node, "w0"), matrices(low, node, "w1"), strict=True))
    biases: dict[str, Range | int] = {
        name: low.vector(node, role) for name, role in (("bias", "b0"), ("bias1", "b1"))
        if role in node.weights}
    together = all(a.quant == b.quant for a, b in pairs) and "residual" not in node.attrs
    if together:
        for a, b in pairs:
            ranges: dict[str, Range | int] = {"m": a.params(low), "w": a.at, "w1": b.at, "x": x,
                                              "y": out, **biases}
            _few_rows(low, a, a.n_groups, rows, ranges, {
                "SECOND": True, "W1": True, "BIAS": "bias" in biases, "BIAS1": "bias1" in biases,
                "ROWS": ROWS_WORD[rows], **activation_flag(node.attrs["act"])})
    _gated_by_parts(low, node, pairs, coded, few=not together)


def _gated_by_parts(low: Lowering, node: Node, pairs: list[tuple[Matrix, Matrix]], coded: Ranges,
                    *, few: bool) -> None:
    y = node.outputs[0]
    rows, cols = symbol(y), n_cols(y)
    if not few and _most(low, rows) <= FEW_ROWS:
        return
    half = _half_scratch(low.segment.limits, node)
    parts = [low.scratch(i * half, half) for i in range(2)]
    for i in range(2):
        extra: dict[str, Range | int] = {"x": low.value(node.inputs[0]), "y": parts[i]}
        if f"b{i}" in node.weights:
            extra["bias"] = low.vector(node, f"b{i}")
        for pair in pairs:
            product(low, pair[i], rows, extra, coded, few=few)

    def grid(size: Size) -> Groups | None:
        n = size.rows(rows)
        return None if n == 0 or (not few and n <= FEW_ROWS) else (*fold(-(-n * cols // 256)), 1)

    out = low.value(y)
    low.emit("glu", grid, {"params": low.params(cols), "a": parts[0], "b": parts[1], "y": out},
             {"ROWS": ROWS_WORD[rows], **activation_flag(node.attrs["act"])})
    if "residual" in node.attrs:
        low.emit("add", grid, {"params": low.params(cols), "a": out,
                               "b": low.value(node.inputs[-1]), "y": out},
                 {"ROWS": ROWS_WORD[rows]})


def _half_scratch(limits: Limits, node: Node) -> int:
    return -(-4 * limits.count(node.outputs[0].shape) // ALIGNMENT) * ALIGNMENT


def linear_scratch(node: Node, limits: Limits, options: BackendOptions) -> int:
    """Bytes of both products of a gated pair, and of x as int8."""
    halves = 2 * _half_scratch(limits, node) if "act" in node.attrs else 0
    return halves + (0 if options.precise else sum(_codes_bytes(limits, node)))
