"""Mixture of experts: a router picks a few feed-forward networks for each token (Shazeer 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node, Weight
from unladen.graph.ops.activation import ACTIVATIONS, activation_error, activation_slope
from unladen.graph.ops.base import EPS32, SMALL, Array, Inferred, Op, RefContext, cut, narrowed
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.linear import product_error
from unladen.graph.ops.routing import Routing
from unladen.types import Limits

EXPERT_ROLES = ("gate", "up", "gate_up", "down", "gate_b", "up_b", "down_b", "down_scale")
"""Roles of weights with an entry for each expert that the node holds."""
VECTOR_ROLES = ("gate_b", "up_b", "down_b")
"""Roles of biases: a vector for each expert that the node holds."""


def first_expert(node: Node) -> int:
    """The number of the first expert that ``node`` holds."""
    return node.int_attr("first_expert") if "first_expert" in node.attrs else 0


def n_held(node: Node) -> int:
    """How many experts ``node`` holds."""
    return node.weights["down"].shape[0]


def n_networks(node: Node) -> int:
    """How many experts the layer has on all devices together."""
    return node.weights["router"].shape[0] // Routing.of(node).fold


def weighs_input(node: Node) -> bool:
    """Whether an expert's weight multiplies its input instead of its output."""
    return bool(node.attrs.get("weigh_input"))


def seen_by_router(node: Node) -> int:
    """The index of the input from which the router chooses."""
    return len(node.inputs) - 1 - bool(node.attrs.get("given"))


def is_plain(node: Node) -> bool:
    """Whether ``node`` is a mixture of gated units without optional inputs, weights and
    attributes."""
    routing = Routing.of(node)
    return (len(node.inputs) == 1 and not weighs_input(node) and GatedUnit.of(node).is_plain
            and routing.gating in ("softmax", "sigmoid") and routing.n_groups == 1
            and set(node.weights) <= {"router", "router_b", "gate", "up", "down"}
            and "gate" in node.weights and node.attrs["act"] != "sigmoid")


class Moe(Op):
    """``y[t] = sum_e p[t, e] * down_e(act(gate_e x) * up_e x)`` over the experts chosen for t.

    Inputs: x f32 [T, n]; optionally another input for the router, f32 [T, m]; and, with attribute
    ``given``, numbers of experts that are chosen before all others, f32 [T, n_used].

    Weights: ``router`` [E, m], ``gate`` and ``up`` [H, n_ff, n], ``down`` [H, n, n_ff]. ``gate_up``
    [H, 2 n_ff, n] replaces ``gate`` and ``up``, with the gate's rows first. Without a gate the unit
    is ``act(up_e x)``. Optional: ``router_b`` and ``select_b`` [E], the biases ``gate_b`` and
    ``up_b`` [H, n_ff] and ``down_b`` [H, n], and ``down_scale`` [H], a factor of ``down_e``; and
    ``slot_of`` [E], which of the held experts each expert is now, -1 for one that isn't held.

    Attributes: those of :class:`~unladen.graph.ops.routing.Routing` and of
    :class:`~unladen.graph.ops.gated.GatedUnit`. With ``weigh_input`` p multiplies x instead of the
    result (Llama 4, 2025). Without ``first_expert`` H is E. With it the node holds the experts
    ``first_expert .. first_expert + H``: it chooses among all, and sums over those it holds. With
    ``slot_of`` it holds any H experts in any order, others in each step. ``n_elsewhere`` says how
    many experts another node holds then, for the cost.
    """

    name = "moe"
    is_row_wise = True
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        x, by = node.inputs[0], node.inputs[seen_by_router(node)]
        w = node.weights
        n_experts, n = w["router"].shape[0], x.shape[-1]
        h, n_out, n_ff = w["down"].shape
        assert n_out == n and w["router"].shape == (n_experts, by.shape[-1])
        assert by.shape[:-1] == x.shape[:-1] and 0 <= seen_by_router(node) <= 1
        shapes = {"router": w["router"].shape, "down": (h, n, n_ff), "gate": (h, n_ff, n),
                  "up": (h, n_ff, n), "gate_up": (h, 2 * n_ff, n), "router_b": (n_experts,),
                  "select_b": (n_experts,), "gate_b": (h, n_ff), "up_b": (h, n_ff),
                  "down_b": (h, n), "down_scale": (h,), "slot_of": (n_networks(node),)}
        assert all(weight.shape == shapes[role] for role, weight in w.items()), node.name
        assert ("up" in w) != ("gate_up" in w) and ("gate" not in w or "up" in w)
        assert "gate_b" not in w or has_gate(node)
        assert {"first_expert", "slot_of"} & {*node.attrs, *w} or h == n_networks(node)
        assert 0 <= first_expert(node) <= n_networks(node) - h <= n_networks(node) - 1
        Routing.of(node), GatedUnit.of(node)
        return [(x.shape, "f32")]

    def route(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> tuple[Array, Array]:
        """The chosen experts, int [T, n_used], best first, and their weights, float64
        [T, n_used]."""
        by = inputs[seen_by_router(node)]
        logits = by @ ctx.weights["router"].T + ctx.weights.get("router_b", 0.0)
        given = inputs[-1] if node.attrs.get("given") else None
        return Routing.of(node).choose(logits, ctx.weights.get("select_b"), given)

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        y = np.zeros_like(inputs[0])
        for e, rows, weight in self._loads(node, inputs, ctx):
            x = inputs[0][rows]
            if weighs_input(node):
                x, weight = x * weight, np.ones_like(weight)
            gate, up = _gate_up(node, x, e, ctx)
            hidden = _unit(node, gate, up)
            down = hidden @ ctx.weights["down"][e].T * _scale(e, ctx)
            y[rows] += weight * (down + _bias("down_b", e, ctx))
        return [y]

    def _loads(self, node: Node, inputs: Sequence[Array], ctx: RefContext
               ) -> Iterator[tuple[int, Array, Array]]:
        """For each held expert that tokens have chosen: its index, these tokens, and its weights
        for them [n, 1]."""
        chosen, weight = self.route(node, inputs, ctx)
        if "slot_of" in ctx.weights:
            held = ctx.weights["slot_of"].astype(np.int64)[chosen]
        else:
            held = chosen - first_expert(node)
        for e in range(n_held(node)):
            rows, slot = np.nonzero(held == e)
            if len(rows):
                yield e, rows, weight[rows, slot, None]

    def shrunk(self, node: Node) -> Node:
        routing, n_experts = Routing.of(node), node.weights["router"].shape[0]
        used, groups = min(2, routing.n_used), (routing.n_groups, routing.n_groups_used)
        if n_experts > (used + 1) * min(2, groups[0]):
            groups = min(2, groups[0]), 1
            n_experts = (used + 1) * groups[0]
        n = SMALL // 2
        weights = {role: self._cut(role, w, n_experts, n) for role, w in node.weights.items()
                   if role != "slot_of"}
        first = min(first_expert(node), n_experts - weights["down"].shape[0])
        attrs = {**node.attrs, "n_used": used, "first_expert": first, "n_groups": groups[0],
                 "n_groups_used": groups[1]}
        widths = [weights["down"].shape[1], weights["router"].shape[1]][:1 + seen_by_router(node)]
        inputs = tuple(map(narrowed, node.inputs, [*widths, used][:len(node.inputs)]))
        return replace(node, weights=weights, attrs=attrs, inputs=inputs)

    def _cut(self, role: str, w: Weight, n_experts: int, n: int) -> Weight:
        return cut(w, n_experts, *((2 * n, n) if role == "gate_up" else (n, n))[:len(w.shape) - 1])

    def flops(self, node: Node, limits: Limits) -> int:
        rows = limits.count(node.inputs[0].shape[:-1])
        router = node.weights["router"]
        share = Routing.of(node).n_used / router.shape[0] * _share_here(node)
        experts = sum(w.n_elements for role, w in node.weights.items() if role in EXPERT_ROLES)
        return round(2 * rows * (router.n_elements + experts * share))

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        rows = limits.count(node.inputs[0].shape[:-1])
        share = min(1.0, rows * node.int_attr("n_used") / node.weights["router"].shape[0])
        share *= _share_here(node)
        experts = sum(weight_bytes(w.name) for role, w in node.weights.items()
                      if role in EXPERT_ROLES)
        values = 4 * sum(limits.count(v.shape) for v in (*node.inputs, *node.outputs))
        return values + int(share * experts) + weight_bytes(node.weights["router"].name)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """A bound for outputs of the same experts. A test has to make sure that both choose
        them."""
        by = inputs[seen_by_router(node)]
        router = product_error(by, ctx.weights["router"], 0).max(axis=-1, keepdims=True)
        # A logit that is off by d changes any gating, and any sum of gatings, by a factor of at
        # most exp(d). Relative errors of 2 d for the numerator and 2 d for the sum bound this.
        off_weight = 4 * (router + 1e-6)
        bound = np.zeros_like(inputs[0])
        for e, rows, weight in self._loads(node, inputs, ctx):
            x, off_x = inputs[0][rows], np.zeros((len(rows), 1))
            if weighs_input(node):
                x, off_x = x * weight, off_weight[rows]
                weight = np.ones_like(weight)
            hidden, off = _hidden_error(node, x, off_x, e, ctx)
            down = ctx.weights["down"][e] * _scale(e, ctx)
            total = off @ np.abs(down).T + product_error(np.abs(hidden) + off, down,
                                                         ctx.act_block.get("down", 0))
            bias = _bias("down_b", e, ctx)
            size = np.abs(hidden @ down.T + bias) + np.abs(bias)
            bound[rows] += np.abs(weight) * (total + (off_weight[rows] + 2 * EPS32) * size)
        return [bound]


def _share_here(node: Node) -> float:
    """The share of the held experts' work that is done here, if all experts are chosen equally
    often."""
    away = node.int_attr("n_elsewhere") if "n_elsewhere" in node.attrs else 0
    return 1 - away / n_networks(node)


def has_gate(node: Node) -> bool:
    """Whether the experts have gates."""
    return "gate" in node.weights or "gate_up" in node.weights


def _bias(role: str, e: int, ctx: RefContext) -> Array:
    return ctx.weights[role][e] if role in ctx.weights else np.zeros(1)


def _scale(e: int, ctx: RefContext) -> float:
    return float(ctx.weights["down_scale"][e]) if "down_scale" in ctx.weights else 1.0


def _matrices(e: int, ctx: RefContext) -> dict[str, Array]:
    """The gate matrix, if there is one, and the up matrix of expert ``e``, by role."""
    if "gate_up" in ctx.weights:
        gate, up = np.split(ctx.weights["gate_up"][e], 2)
        return {"gate": gate, "up": up}
    return {role: ctx.weights[role][e] for role in ("gate", "up") if role in ctx.weights}


def _gate_up(node: Node, x: Array, e: int, ctx: RefContext) -> tuple[Array | None, Array]:
    y = {role: x @ w.T + _bias(f"{role}_b", e, ctx) for role, w in _matrices(e, ctx).items()}
    return y.get("gate"), y["up"]


def _unit(node: Node, gate: Array | None, up: Array) -> Array:
    unit = GatedUnit.of(node)
    return ACTIVATIONS[unit.act](up) if gate is None else unit(gate, up)


def _hidden_error(node: Node, x: Array, off_x: Array, e: int, ctx: RefContext
                  ) -> tuple[Array, Array]:
    """The input of ``down`` and a bound of its error. ``off_x`` [n_rows, 1]: a bound of the
    relative error of the factor that weighs x, which a row's columns share; each is then
    rounded."""
    unit, off = GatedUnit.of(node), {}
    rounding = EPS32 if weighs_input(node) else 0.0
    for role, w in _matrices(e, ctx).items():
        block = ctx.act_block.get(role, ctx.act_block.get("gate_up", 0))
        bias = np.abs(_bias(f"{role}_b", e, ctx))
        off[role] = ((1 + off_x) * product_error(x, w, block) + off_x * np.abs(x @ w.T)
                     + rounding * (np.abs(x) @ np.abs(w).T) + EPS32 * bias)
    gate, up = _gate_up(node, x, e, ctx)
    if gate is not None:
        return unit(gate, up), unit.error(gate, up, off["gate"], off["up"])
    error = activation_slope(unit.act, up, off["up"]) * off["up"] + activation_error(unit.act, up)
    return ACTIVATIONS[unit.act](up), error
