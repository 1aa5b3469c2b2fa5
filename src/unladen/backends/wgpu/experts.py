"""The mixture of experts: route, the experts' hidden rows, their sum."""

from __future__ import annotations

from dataclasses import dataclass

from unladen.backends.wgpu.gpu import ALIGNMENT, Range
from unladen.backends.wgpu.lower import Lowering, Ranges, activation_flag, fold, row_bytes, symbol
from unladen.backends.wgpu.memory import of_gpu
from unladen.backends.wgpu.products import ROWS_PER_GROUP, Matrix, matrices, product
from unladen.backends.wgpu.program import Grid, Groups, Size
from unladen.backends.wgpu.source import Constants
from unladen.graph.graph import Node
from unladen.types import Limits


@dataclass(frozen=True, slots=True)
class Scratch:
    """Offsets of what a node keeps while it runs: logits [T, E], chosen and their weights
    [T, n_used], hidden rows [T, n_used, n_ff]; and the bytes of it all."""

    logits: tuple[int, int]
    chosen: tuple[int, int]
    weights: tuple[int, int]
    hidden: tuple[int, int]
    nbytes: int

    @classmethod
    def of(cls, node: Node, limits: Limits) -> Scratch:
        """For the largest step."""
        n_experts, n_ff, _ = node.weights["gate"].shape
        rows = limits.count(node.inputs[0].shape[:-1])
        n_used = node.int_attr("n_used")
        places, at = [], 0
        for n in (n_experts, n_used, n_used, n_used * n_ff):
            places.append((at, 4 * rows * n))
            at += -(-4 * rows * n // ALIGNMENT) * ALIGNMENT
        return cls(places[0], places[1], places[2], places[3], at)


def moe(low: Lowering, node: Node) -> None:
    """See :class:`~unladen.graph.ops.moe.Moe`."""
    (x,), (y,) = node.inputs, node.outputs
    rows, n_used = symbol(y), node.int_attr("n_used")
    n_experts, n_ff, n = node.weights["gate"].shape
    places = Scratch.of(node, low.segment.limits)
    logits, chosen, weights, hidden = (
        low.scratch(*place) for place in (places.logits, places.chosen, places.weights,
                                          places.hidden))
    extra: dict[str, Range | int] = {"x": low.value(x), "y": logits}
    if "router_b" in node.weights:
        extra["bias"] = low.vector(node, "router_b")
    for m in matrices(low, node, "router"):
        product(low, m, rows, extra)

    def per_token(size: Size) -> Groups | None:
        return (size.rows(rows), 1, 1) if size.rows(rows) else None

    low.emit("moe_route", per_token, {
        "params": low.params(n_used, int(node.attrs["gating"] == "sigmoid"),
                             int(bool(node.attrs["normalize"])), node.float_attr("scale")),
        "x": logits, "chosen": chosen, "weights": weights}, {"EXPERTS": n_experts})
    _hidden(low, node, {"x": low.value(x), "y": hidden, "chosen": chosen},
            _groups(n_ff, rows, n_used))
    _out(low, node, {"x": hidden, "y": low.value(y), "chosen": chosen, "weights": weights},
         _groups(n, rows, 1))


def _groups(n_rows: int, rows: str, per_row: int) -> Grid:
    def grid(size: Size) -> Groups | None:
        n = size.rows(rows) * per_row
        return (*fold(-(-n_rows // ROWS_PER_GROUP)), n) if n else None

    return grid


def _experts(low: Lowering, node: Node, role: str) -> list[Matrix]:
    """The weight in ``role`` in pieces of whole experts; ``first_row`` and ``n_rows`` count
    experts."""
    placed = low.placed(node, role)
    n_experts, n_out, n_in = placed.weight.shape
    expert_bytes = n_out * row_bytes(placed.quant, n_in)
    return [Matrix(placed.quant, at, first, n, n_out, n_in) for at, first, n in
            of_gpu(placed.buffer).rows(placed.offset, expert_bytes, n_experts)]


def _hidden(low: Lowering, node: Node, ranges: Ranges, grid: Grid) -> None:
    gates, ups = _experts(low, node, "gate"), _experts(low, node, "up")
    flags = activation_flag(node.attrs["act"])
    for a, b in zip(gates, ups, strict=True):
        low.emit("moe_hidden", grid, {
            **ranges, "m": a.params(low), "w": a.at, "w1": b.at, "routing": _routing(low, node, a)},
            {"SECOND": True, "ALL_OUT": 2 * ROWS_PER_GROUP, **_shape(a), **flags}, quant=a.quant)


def _out(low: Lowering, node: Node, ranges: Ranges, grid: Grid) -> None:
    for m in _experts(low, node, "down"):
        low.emit("moe_out", grid, {
            **ranges, "m": m.params(low), "w": m.at, "routing": _routing(low, node, m)},
            {"ALL_OUT": ROWS_PER_GROUP, **_shape(m)}, quant=m.quant)


def _shape(m: Matrix) -> Constants:
    return {"R": ROWS_PER_GROUP, "NT": 1, "WG": m.threads, **m.constants}


def _routing(low: Lowering, node: Node, m: Matrix) -> int:
    return low.params(node.int_attr("n_used"), m.first_row, m.n_rows)
