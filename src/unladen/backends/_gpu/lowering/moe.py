"""Dispatches of :class:`~unladen.graph.ops.moe.Moe`: routing, the experts' hidden rows, their sum.

In a step of few tokens each (token, expert) pair is computed by itself. In a step of many tokens
the pairs of an expert are computed together, so that its weights are decoded once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace

from unladen.backends._gpu.dispatch import Grid, Groups, Ranges, fold
from unladen.backends._gpu.lowering._expert_forms import (
    MATRICES,
    Rows,
    Wanted,
    form_bytes,
    grouped,
    needs_forms,
    one_each,
    prepare,
)
from unladen.backends._gpu.lowering._matrix import FEW_ROWS, Matrix, matrices, stacked
from unladen.backends._gpu.lowering._products import PLAIN_KERNELS, TILE_THREADS, Prepared, product
from unladen.backends._gpu.lowering.base import (
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
from unladen.backends._gpu.target import ALIGNMENT, FEWEST_BINDINGS, Constants, Range
from unladen.backends.base import BackendOptions
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.moe import (
    VECTOR_ROLES,
    first_expert,
    has_gate,
    seen_by_router,
    weighs_input,
)
from unladen.graph.ops.routing import Routing
from unladen.quants.tiles import ROWS
from unladen.types import Limits

MAX_EXPERTS = 1024
"""The most experts whose logits fit into a workgroup's memory."""
ROWS_PER_TILE = 64
"""How many (token, expert) pairs, and how many rows of a weight, a workgroup's tile has."""
ROUTE_THREADS = 64
"""Threads of a workgroup that chooses a token's experts."""


class Moe(OpLowering):
    """Two ways to compute the pairs, one by one and together, after the same routing."""

    op = "moe"
    kernels = PLAIN_KERNELS | {"moe_route", "moe_hidden", "moe_out", "moe_group", "moe_tile",
                               "moe_join"}
    features = frozenset({"subgroups", "int_dot", "mma", "wgmma"})

    def supports(self, node: Node) -> bool:
        """Up to :data:`MAX_EXPERTS` experts whose gate and up matrices have the same format."""
        w = node.weights
        alike = "gate" not in w or w["gate"].quant == w["up"].quant
        return alike and w["router"].shape[0] <= MAX_EXPERTS

    def n_bindings(self, node: Node) -> int:
        """Those of the kernels for hidden rows of many tokens, or for the sums of few; see
        :func:`_unit` and :func:`_results`."""
        has = node.weights
        # Besides: matrix, x, y, two arrays that say which pairs, the step's words and a codebook.
        hidden = 7 + has_gate(node) + weighs_input(node) + ("gate_b" in has) + ("up_b" in has)
        return max(hidden, 7 + ("down_scale" in has) + ("down_b" in has), FEWEST_BINDINGS)

    def reads_blocks(self, node: Node, weight: Weight) -> bool:
        """Biases and scales of experts are float32, as other vectors are."""
        is_vector = any(node.weights.get(role) is weight for role in VECTOR_ROLES)
        return not is_vector and OpLowering.reads_blocks(self, node, weight)

    def reads_tiles(self, node: Node, weight: Weight) -> bool:
        """Tiles of a fused gate and up matrix must not have rows of both. Three numbers of bfloat16
        for each of x would not fit into a workgroup's memory."""
        mine = any(node.weights.get(role) is weight for role in MATRICES)
        return mine and node.weights["down"].shape[2] % ROWS == 0 and weight.quant != "BF16"

    def lower(self, low: Lowering, node: Node) -> None:
        shape = Shape.of(node, low.segment.limits)
        scratch = {name: low.scratch(*place) for name, place in shape.scratch()[0].items()}
        route(low, node, seen_by_router(node), shape.first_expert, scratch)
        x, y = low.value(node.inputs[0]), low.value(node.outputs[0])
        at = {**scratch, "x": x, "y": y}
        tiles = any(m.in_tiles for role in MATRICES if role in node.weights
                    for m in stacked(low, node, role))
        # Tiles without matrix units: pairs one by one, however many.
        most = shape.n_tokens if tiles and "mma" not in low.features else FEW_ROWS
        _one_by_one(low, node, shape, at, most)
        if shape.n_tokens > most:
            _together(low, node, shape, at)

    def scratch_bytes(self, node: Node, limits: Limits, options: BackendOptions) -> int:
        """Bytes that a node needs while it runs."""
        return Shape.of(node, limits).scratch()[1]

    def mma_scratch_bytes(self, node: Node, limits: Limits, features: Set[str]) -> int:
        """Bytes for x and hidden rows in the forms that tiles are multiplied with."""
        shape = Shape.of(node, limits)
        return sum(form_bytes(*shape.x_rows)) + sum(form_bytes(*shape.hidden_rows)) if (
            needs_forms(node)) else 0


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a node, and the most tokens of a step."""

    rows: str
    n_tokens: int
    n_experts: int
    first_expert: int
    n_held: int
    n_used: int
    n: int
    n_ff: int

    @classmethod
    def of(cls, node: Node, limits: Limits) -> Shape:
        """The sizes of ``node``."""
        n_held, n, n_ff = node.weights["down"].shape
        x: Value = node.inputs[0]
        return cls(symbol(x), limits.count(x.shape[:-1]), node.weights["router"].shape[0],
                   first_expert(node), n_held, node.int_attr("n_used"), n, n_ff)

    @property
    def x_rows(self) -> tuple[int, int]:
        """The most rows of x, and their columns."""
        return self.n_tokens, self.n

    @property
    def hidden_rows(self) -> tuple[int, int]:
        """The most hidden rows, and their columns."""
        return self.n_tokens * self.n_used, self.n_ff

    def n_tiles(self, n_tokens: int) -> int:
        """The most tiles of pairs in a step of ``n_tokens``. Each expert has one that isn't full
        or has no pairs."""
        return n_tokens * self.n_used // ROWS_PER_TILE + self.n_held

    def scratch(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Offset and bytes of each array that a node needs while it runs, by name; and the bytes of
        all arrays."""
        pairs = self.n_tokens * self.n_used
        sizes = {"logits": self.n_tokens * self.n_experts, "chosen": pairs, "weights": pairs,
                 "hidden": pairs * self.n_ff}
        if self.n_tokens > FEW_ROWS:
            sizes |= {"order": pairs, "tiles": 1 + 3 * self.n_tiles(self.n_tokens),
                      "results": pairs * self.n}
        places, at = {}, 0
        for name, n in sizes.items():
            places[name] = at, 4 * n
            at += -(-4 * n // ALIGNMENT) * ALIGNMENT
        return places, at


def route(low: Lowering, node: Node, seen: int, first_expert: int, at: dict[str, Range],
          told: Range | None = None) -> None:
    """Choose experts by the input ``seen`` of ``node``. ``at``: ranges for "logits", "chosen" and
    "weights". ``told``: where the numbers of the chosen experts go, as float32."""
    routing, has, rows = Routing.of(node), node.weights, symbol(node.inputs[seen])
    extra: dict[str, Range | bytes] = {"x": low.value(node.inputs[seen]), "y": at["logits"]}
    if "router_b" in has:
        extra["bias"] = low.vector(node, "router_b")
    for m in matrices(low, node, "router"):
        product(low, m, rows, extra)

    def grid(size: Size) -> Groups | None:
        return (*fold(size.rows(rows)), 1) if size.rows(rows) else None

    params = numbers(routing.n_used, routing.scale, first_expert, routing.n_groups,
                     routing.n_groups_used, routing.fold)
    ranges: dict[str, Range | bytes] = {"params": params, "x": at["logits"],
                                        "chosen": at["chosen"], "weights": at["weights"]}
    ranges |= {name: low.vector(node, role) for name, role in (
        ("select_bias", "select_b"), ("slot_of", "slot_of")) if role in has}
    if node.attrs.get("given"):
        ranges["given"] = low.value(node.inputs[-1])
    if told is not None:
        ranges["told"] = told
    # Where probabilities are in the same order as logits, the logits decide: they are more exact.
    scored = routing.gating != "softmax_chosen" and (routing.n_groups > 1 or "select_b" in has)
    low.emit("moe_route", grid, ROUTE_THREADS, ranges,
             {"EXPERTS": has["router"].shape[0], "ROW_KIND": rows_word(rows),
              routing.gating.upper(): True,
              "SCORED": scored, "SELECT_BIAS": "select_b" in has, "GIVEN": "given" in ranges,
              "SLOTS": "slot_of" in has, "TOLD": told is not None,
              "GROUPS": routing.n_groups > 1, "NORMALIZE": routing.normalize})


def _forms(low: Lowering, node: Node, shape: Shape, at: dict[str, Range], wanted: Wanted
           ) -> tuple[Callable[[], Prepared], Callable[[], Prepared]]:
    """Functions that append the dispatches for other forms of x and of hidden rows, for steps of as
    many tokens as ``wanted`` says."""
    begin = shape.scratch()[1]
    first = "gate_up" if "gate_up" in node.weights else "up"

    def x() -> Prepared:
        rows = Rows(shape.rows, at["x"], shape.n_tokens, 1, shape.n)
        return prepare(low, rows, stacked(low, node, first), begin, wanted)

    def hidden() -> Prepared:
        rows = Rows(shape.rows, at["hidden"], shape.n_tokens, shape.n_used, shape.n_ff)
        return prepare(low, rows, stacked(low, node, "down"),
                       begin + sum(form_bytes(*shape.x_rows)), wanted)

    return x, hidden


def _one_by_one(low: Lowering, node: Node, shape: Shape, at: dict[str, Range], most: int) -> None:
    def grid(n_groups: int, per_token: int) -> Grid:
        def groups(size: Size) -> Groups | None:
            n = size.rows(shape.rows) * per_token
            if not 0 < size.rows(shape.rows) <= most:
                return None
            return *fold(n_groups), n

        return groups

    prepare_x, prepare_hidden = _forms(low, node, shape, at, lambda n: n <= most)
    extra, flags = _unit(low, node, at)
    x = prepare_x()
    for a, ranges in _gate_up(low, node, shape):
        taken, constants = one_each(low, a, {
            **ranges, **extra, "x": at["x"], "y": at["hidden"], "chosen": at["chosen"]}, flags, x)
        low.emit("moe_hidden", grid(-(-shape.n_ff // a.rows_per_group), shape.n_used), a.threads(),
                 taken, constants, quant=a.quant)
    extra, flags = _results(low, node)
    hidden = prepare_hidden()
    for m, ranges in _down(low, node):
        taken, constants = one_each(low, m, {
            **ranges, **extra, "x": at["hidden"], "y": at["y"], "chosen": at["chosen"],
            "routing": numbers(shape.n_used, m.first_row, m.n_rows),
            "weights": at["weights"]}, flags, hidden)
        low.emit("moe_out", grid(-(-shape.n // m.rows_per_group), 1), m.threads(), taken, constants,
                 quant=m.quant)


def _together(low: Lowering, node: Node, shape: Shape, at: dict[str, Range]) -> None:
    def many(groups: Grid) -> Grid:
        return lambda size: groups(size) if size.rows(shape.rows) > FEW_ROWS else None

    def tiles(n_rows: int, height: int = ROWS_PER_TILE) -> Grid:
        return many(lambda size: (*fold(-(-n_rows // height)),
                                  shape.n_tiles(size.rows(shape.rows))))

    def emit(m: Matrix, n_rows: int, ranges: dict[str, Range | bytes], flags: Constants,
             x: Prepared) -> None:
        if m.in_tiles:
            taken, constants, sizes = grouped(low, m, ranges, flags, x)
            low.emit("moe_mma", tiles(n_rows, sizes.rows[0]), sizes.threads, taken, constants,
                     quant=m.quant)
        else:
            low.emit("moe_tile", tiles(n_rows), TILE_THREADS, ranges,
                     {"TILE": ROWS_PER_TILE, **m.constants, **flags}, quant=m.quant)

    pairs: Ranges = {"order": at["order"], "tiles": at["tiles"]}
    rows: Constants = {"ROW_KIND": rows_word(shape.rows)}
    low.emit("moe_group", many(lambda size: (shape.n_held, 1, 1)), TILE_THREADS,
             {"params": numbers(shape.n_used), "chosen": at["chosen"], **pairs},
             {"EXPERTS": shape.n_held, "TILE": ROWS_PER_TILE, **rows})
    prepare_x, prepare_hidden = _forms(low, node, shape, at, lambda n: n > FEW_ROWS)
    extra, flags = _unit(low, node, at)
    x = prepare_x()
    for a, ranges in _gate_up(low, node, shape):
        emit(a, shape.n_ff, {**ranges, **pairs, **extra, "x": at["x"], "y": at["hidden"]},
             {"HIDDEN": True, **flags}, x)
    hidden = prepare_hidden()
    for m, ranges in _down(low, node):
        emit(m, shape.n, {**ranges, **pairs, "x": at["hidden"], "y": at["results"]},
             {"IDENTITY": True}, hidden)
    cols = n_cols(node.outputs[0])
    extra, flags = _results(low, node)
    joins = many(lambda size: (*fold(-(-size.rows(shape.rows) * cols // ELEMENT_THREADS)), 1))
    low.emit("moe_join", joins, ELEMENT_THREADS,
             {"params": numbers(cols, shape.n_used, shape.n_held), "x": at["results"],
              "weights": at["weights"], "y": at["y"], "chosen": at["chosen"], **extra},
             {**rows, **flags})


def _unit(low: Lowering, node: Node, at: dict[str, Range]) -> tuple[Ranges, Constants]:
    """The bindings of an expert's gated unit except its matrices, and its constants."""
    unit = GatedUnit.of(node)
    ranges: dict[str, Range | bytes] = {
        name: low.vector(node, role) for name, role in (("gate_bias", "gate_b"),
                                                        ("up_bias", "up_b"))
        if role in node.weights}
    if weighs_input(node):
        ranges["weights"] = at["weights"]
    return ranges, {"SECOND": has_gate(node), "W1": has_gate(node), "WEIGHED": weighs_input(node),
                    "GATE_BIAS": "gate_b" in node.weights, "UP_BIAS": "up_b" in node.weights,
                    "LIMITED": unit.limit > 0, **activation_flag(unit.act)}


def _results(low: Lowering, node: Node) -> tuple[Ranges, Constants]:
    """The bindings for scales and biases of the sum over a token's experts, and its constants."""
    roles = {"down_scale": "down_scale", "down_bias": "down_b"}
    ranges = {name: low.vector(node, role) for name, role in roles.items() if role in node.weights}
    return ranges, {"WEIGHED": weighs_input(node),
                    **{name.upper(): name in ranges for name in roles}}


def _gate_up(low: Lowering, node: Node, shape: Shape) -> Iterator[tuple[Matrix, Ranges]]:
    """Each piece of the gate's matrix, or of the up matrix where there is no gate, with the
    bindings of both."""
    first, second = ("gate_up",) * 2 if "gate_up" in node.weights else (
        "gate" if has_gate(node) else "up", "up")
    for a, b in zip(stacked(low, node, first), stacked(low, node, second), strict=True):
        a, apart = replace(a, n_out=shape.n_ff), a.n_out
        up_first = shape.n_ff if first == second == "gate_up" else 0
        ranges: dict[str, Range | bytes] = {"m": a.params, "w": a.at,
                                            "routing": _routing(node, a, apart, up_first)}
        yield a, {**ranges, "w1": b.at} if has_gate(node) else ranges


def _down(low: Lowering, node: Node) -> Iterator[tuple[Matrix, Ranges]]:
    for m in stacked(low, node, "down"):
        yield m, {"m": m.params, "w": m.at, "routing": _routing(node, m, m.n_out, 0)}


def _routing(node: Node, m: Matrix, rows_apart: int, up_first: int) -> bytes:
    unit = GatedUnit.of(node)
    return numbers(node.int_attr("n_used"), m.first_row, m.n_rows, rows_apart, up_first,
                   unit.limit, unit.up_offset, unit.gate_cut)
