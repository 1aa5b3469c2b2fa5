"""Nodes to dispatches: one small function per op; products and experts have files of their own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from unladen.backends.base import Placed, Segment
from unladen.backends.wgpu.gpu import ALIGNMENT, Gpu, Range
from unladen.backends.wgpu.memory import WgpuBuffer, of_gpu
from unladen.backends.wgpu.program import Dispatch, Grid, Groups, RopeTable, Size, WgpuProgram
from unladen.backends.wgpu.source import Constants, has_codes
from unladen.graph.graph import Node, Value
from unladen.graph.ops.columns import column_attrs
from unladen.graph.ops.concat import head_count, head_parts
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.norm_groups import group_of
from unladen.graph.ops.rope import first_rotated, positions_back
from unladen.quants import get

MAX_GROUPS = 65535
"""Workgroups along one dimension, on every device."""
BATCH_WORDS = {"tokens": 3, "positions": 4, "out_rows": 8}
"""Where the step's header says where these are."""
ROWS_WORD = {"T": 0, "S": 1}
MOST_KEPT = 8
"""Items of a row that a thread of a norm keeps instead of reading them again."""
FLAGS = {"subgroups": "SUBGROUPS", "int_dot": "INT_DOT"}
"""What a feature is called in the kernels."""
NO_CONSTANTS: Constants = MappingProxyType({})
Ranges = Mapping[str, Range | int]
"""What a kernel binds, by its name for it; an int: where :meth:`Lowering.params` put constants."""
NO_PARAMS = struct.pack("4I", 0, 0, 0, 0)


def fold(n: int) -> tuple[int, int]:
    """``n`` workgroups in two dimensions; there may be some more."""
    return (n, 1) if n <= MAX_GROUPS else (1 << 15, -(-n >> 15))


def symbol(value: Value) -> str:
    """The symbol of the first dimension."""
    assert isinstance(value.shape[0], str), value
    return value.shape[0]


def n_cols(value: Value) -> int:
    """The second dimension."""
    assert len(value.shape) == 2 and isinstance(value.shape[1], int), value
    return value.shape[1]


class Lowering:
    """Collects the dispatches of a segment, and their constants in one uniform buffer."""

    def __init__(self, gpu: Gpu, segment: Segment, program: WgpuProgram) -> None:
        self.gpu = gpu
        self.segment = segment
        self.program = program
        self.arena = of_gpu(segment.arena)
        self.features: frozenset[str] = frozenset()
        self._params = bytearray()
        self._pending: list[tuple[str, str, Constants, Ranges, Grid]] = []

    def begin(self, node: Node) -> None:
        """What is emitted from now on belongs to ``node``."""
        formats = frozenset(self.placed(node, role).quant for role in node.weights)
        self.features = self.gpu.used_by(node.op, formats, self.segment.options)

    def value(self, value: Value) -> Range:
        """Where a value lies in the arena."""
        return self.arena.range(self.segment.offsets[value],
                                4 * self.segment.limits.count(value.shape))

    def scratch(self, offset: int, nbytes: int) -> Range:
        """Part of the arena that a node may use while it runs."""
        return self.arena.range(self.segment.scratch[0] + offset, nbytes)

    def placed(self, node: Node, role: str) -> Placed:
        """The weight in ``role`` where it lies."""
        return self.segment.weights[node.weights[role].name]

    def vector(self, node: Node, role: str) -> Range:
        """A weight that is a vector of float32."""
        placed = self.placed(node, role)
        assert placed.quant == "F32", placed
        return of_gpu(placed.buffer).range(placed.offset, 4 * placed.weight.n_elements)

    def params(self, *numbers: int | float) -> int:
        """A kernel's constants; returns where they will be in the uniform buffer."""
        at = len(self._params)
        packed = b"".join(struct.pack("<f" if isinstance(n, float) else "<I", n) for n in numbers)
        self._params += packed + bytes(-len(packed) % ALIGNMENT)
        return at

    def constant(self, array: npt.NDArray[np.float32]) -> Range:
        """Numbers that a kernel reads and that no step changes."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer = self.gpu.buffer(data.nbytes)
        self.gpu.write(buffer, 0, data)
        return Range(buffer, 0, data.nbytes)

    def numbers(self, values: npt.ArrayLike) -> Range:
        """A buffer of its own with these numbers, float32."""
        data = np.asarray(values, np.float32).reshape(-1).view(np.uint8)
        buffer = self.gpu.buffer(len(data))
        self.gpu.write(buffer, 0, data)
        return Range(buffer, 0, len(data))

    def emit(self, kernel: str, grid: Grid, ranges: Ranges, constants: Constants = NO_CONSTANTS,
             *, quant: str = "") -> None:
        """Append a dispatch."""
        names = self.features if has_codes(quant) else self.features & {"subgroups"}
        flags = {FLAGS[name]: True for name in names}
        self._pending.append((kernel, quant, {**flags, **constants}, dict(ranges), grid))

    def dispatches(self) -> list[Dispatch]:
        """All of them, compiled and bound."""
        data = np.frombuffer(bytes(self._params or NO_PARAMS), np.uint8)
        buffer = self.gpu.buffer(len(data), uniform=True)
        self.gpu.write(buffer, 0, data)
        result = []
        for kernel, quant, constants, ranges, grid in self._pending:
            pipeline = self.gpu.pipeline(kernel, quant, constants)
            bound = {name: Range(buffer, r, ALIGNMENT) if isinstance(r, int) else r
                     for name, r in ranges.items()}
            result.append(Dispatch(pipeline, self.gpu.bind(pipeline, bound), grid))
        return result

    def elements(self, kernel: str, value: Value, ranges: Ranges,
                 constants: Constants = NO_CONSTANTS, cols: int = 0) -> None:
        """A kernel with a thread for each element of ``value``, or with ``cols`` for that many a
        row."""
        rows, cols = symbol(value), cols or n_cols(value)

        def grid(size: Size) -> Groups | None:
            n = size.rows(rows) * cols
            return (*fold(-(-n // 256)), 1) if n else None

        self.emit(kernel, grid, ranges, {"ROWS": ROWS_WORD[rows], **constants})

    def one_each(self, kernel: str, value: Value, per_row: int, ranges: Ranges,
                 constants: Constants) -> None:
        """A kernel with ``per_row`` workgroups for each row of ``value``."""
        rows = symbol(value)

        def grid(size: Size) -> Groups | None:
            n = size.rows(rows) * per_row
            return (*fold(n), 1) if n else None

        self.emit(kernel, grid, ranges, {"ROWS": ROWS_WORD[rows], **constants})


Lower = Callable[[Lowering, Node], None]


def activation_flag(act: object) -> Constants:
    """The constant that chooses an activation in kernels/parts/activation.wgsl."""
    return {str(act).upper(): True}


def threads_for(n: int) -> int:
    """Threads of a workgroup that adds up ``n`` numbers: a power of two from 32 to 256."""
    return int(min(256, max(32, 1 << max(0, (n // 4 - 1).bit_length()))))


def select_rows(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.select_rows.SelectRows`."""
    (x, which), (y,) = node.inputs, node.outputs
    assert low.segment.batch_inputs[which] == "out_rows"
    low.elements("select_rows", y, {"params": low.params(n_cols(y)), "x": low.value(x),
                                    "y": low.value(y)})


def _norm(low: Lowering, node: Node, at_once: int, constants: Constants) -> None:
    """A workgroup for each group; ``at_once`` columns are an item of a thread."""
    (x,), (y,) = node.inputs, node.outputs
    size = group_of(node)
    period = next((w.n_elements for w in node.weights.values()), size)
    ranges: dict[str, Range | int] = {
        "params": low.params(n_cols(y) // at_once, size // at_once, node.float_attr("eps"),
                             period // at_once),
        "x": low.value(x), "y": low.value(y),
        **{role: low.vector(node, role) for role in node.weights}}
    low.one_each(node.op, y, n_cols(y) // size, ranges,
                 {"WG": threads_for(size), "WEIGHT": "w" in node.weights, **constants})


def rms_norm(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.rms_norm.RmsNorm`."""
    size = group_of(node)
    lengths = [size, *(w.n_elements for w in node.weights.values())]
    at_once = 4 if all(n % 4 == 0 for n in lengths) else 1
    kept = min(MOST_KEPT, -(-size // (at_once * threads_for(size))))
    _norm(low, node, at_once, {"FOURS": at_once == 4, "KEPT": kept})


def layer_norm(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.layer_norm.LayerNorm`."""
    _norm(low, node, 1, {"BIAS": "b" in node.weights})


def rope_table(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.rope.RopeTable`: computed on the host, since float32 can't
    hold the angle of a far position."""
    (y,) = node.outputs
    freqs = node.attrs["freqs"]
    assert isinstance(freqs, tuple)
    low.program.tables.append(RopeTable(np.asarray(freqs, np.float64),
                                        node.float_attr("magnitude"), positions_back(node)))
    low.elements("rope_table", y, {"params": low.params(n_cols(y), len(low.program.tables) - 1),
                                   "y": low.value(y)})


def rope(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.rope.Rope`."""
    *xs, table = node.inputs
    for at in range(0, len(xs), 2):
        one, *other = zip(xs[at:at + 2], node.outputs[at:at + 2], strict=True)
        cols = [n_cols(y) for _, y in (one, *other)]
        ranges: dict[str, Range | int] = {
            "params": low.params(sum(cols), cols[0], node.int_attr("head_dim"), n_cols(table),
                                 int(node.attrs["style"] == "neox"), first_rotated(node)),
            "table": low.value(table), "x": low.value(one[0]), "y": low.value(one[1])}
        for x, y in other:
            ranges |= {"x1": low.value(x), "y1": low.value(y)}
        low.elements("rope", one[1], ranges, {"TWO": bool(other)}, cols=sum(cols))


def add(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.add.Add`."""
    (y,), is_row = node.outputs, bool(node.weights)
    low.elements("add", y, {
        "params": low.params(n_cols(y)), "a": low.value(node.inputs[0]),
        "b": low.vector(node, "b") if is_row else low.value(node.inputs[1]),
        "y": low.value(y)}, {"ROW": is_row})


def concat(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.concat.Concat`: one dispatch for each part."""
    (y,), n_heads, at = node.outputs, head_count(node), 0
    for x, (n, is_shared) in zip(node.inputs, head_parts(node), strict=True):
        params = low.params(n, n_cols(y) // n_heads, at, n_heads)
        low.elements("concat", x, {"params": params, "x": low.value(x), "y": low.value(y)},
                     {"SHARED": is_shared}, cols=n_heads * n)
        at += n


def scale(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.scale.Scale`."""
    (x,), (y,) = node.inputs, node.outputs
    n_weights = node.weights["w"].n_elements if node.weights else 0
    ranges: dict[str, Range | int] = {
        "params": low.params(n_cols(y), node.float_attr("s"), n_weights), "x": low.value(x),
        "y": low.value(y), **{role: low.vector(node, role) for role in node.weights}}
    low.elements("scale", y, ranges, {"WEIGHT": bool(node.weights),
                                      "DIVIDE": bool(node.attrs.get("divide"))})


def clamp(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.clamp.Clamp`."""
    (x,), (y,) = node.inputs, node.outputs
    low.elements("clamp", y, {"params": low.params(n_cols(y), node.float_attr("limit")),
                              "x": low.value(x), "y": low.value(y)})


def softcap(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.softcap.Softcap`."""
    (x,), (y,) = node.inputs, node.outputs
    low.elements("softcap", y, {"params": low.params(n_cols(y), node.float_attr("cap")),
                                "x": low.value(x), "y": low.value(y)})


def columns(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.columns.Columns`."""
    (x,), (y,) = node.inputs, node.outputs
    low.elements("columns", y, {"params": low.params(n_cols(y), *column_attrs(node)),
                                "x": low.value(x), "y": low.value(y)})


def activation(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.activation.ActivationOp`."""
    (x,), (y,) = node.inputs, node.outputs
    low.elements("activation", y, {"params": low.params(n_cols(y)), "x": low.value(x),
                                   "y": low.value(y)}, activation_flag(node.attrs["act"]))


def glu(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.glu.Glu`."""
    (a, b), (y,) = node.inputs, node.outputs
    unit = GatedUnit.of(node)
    params = low.params(n_cols(y), n_cols(b) // n_cols(a), unit.limit, unit.up_offset,
                        unit.gate_cut)
    low.elements("glu", y, {"params": params, "a": low.value(a), "b": low.value(b),
                            "y": low.value(y)},
                 {"LIMITED": unit.limit > 0, **activation_flag(unit.act)})


def position_scale(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.position_scale.PositionScale`."""
    (y,) = node.outputs
    params = low.params(node.int_attr("length"), node.int_attr("offset"), node.float_attr("scale"))
    low.elements("position_scale", y, {"params": params, "y": low.value(y)})


def row_bytes(quant: str, n: int) -> int:
    """Bytes of a row of ``n`` weights."""
    return get(quant).row_bytes(n)


def whole(buffer: WgpuBuffer) -> Range:
    """A buffer that a kernel binds in one piece; raises :class:`OutOfMemory`."""
    return buffer.range(0, buffer.nbytes)


SIMPLE: Mapping[str, Lower] = MappingProxyType({
    "select_rows": select_rows, "rms_norm": rms_norm, "layer_norm": layer_norm,
    "rope_table": rope_table, "rope": rope, "add": add, "concat": concat, "scale": scale,
    "clamp": clamp, "softcap": softcap, "columns": columns,
    "activation": activation, "glu": glu, "position_scale": position_scale})
"""By op."""


