"""The experts that a mixture chooses for each token, for nodes that share its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import SMALL, Array, Inferred, Op, RefContext, cut, narrowed
from unladen.graph.ops.linear import product_error
from unladen.graph.ops.routing import GATINGS, Routing
from unladen.types import Limits


class ChooseExperts(Op):
    """The numbers of the experts that are chosen for each token, best first: f32 [T, n_used].

    Inputs: the router's input f32 [T, m]; and, with attribute ``given``, experts that are chosen
    before all others, f32 [T, n_used]. Weights and attributes: those of
    :class:`~unladen.graph.ops.moe.Moe` for routing. With ``fold`` the numbers are those of the
    router's choices, several of which share an expert.
    """

    name = "choose_experts"
    is_row_wise = True
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        x, router = node.inputs[0], node.weights["router"]
        assert router.shape[1] == x.shape[-1] and len(router.shape) == 2
        assert set(node.weights) <= {"router", "router_b", "select_b"}
        assert len(node.inputs) == 1 + bool(node.attrs.get("given"))
        return [((*x.shape[:-1], Routing.of(node).n_used), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        score = self._score(node, inputs, ctx)
        return [Routing.of(node).best(score).astype(np.float64)]

    def _score(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Array:
        logits = inputs[0] @ ctx.weights["router"].T + ctx.weights.get("router_b", 0.0)
        given = inputs[1] if node.attrs.get("given") else None
        return Routing.of(node).scores(GATINGS[Routing.of(node).gating](logits),
                                       ctx.weights.get("select_b"), given)

    def shrunk(self, node: Node) -> Node:
        routing, n_experts = Routing.of(node), node.weights["router"].shape[0]
        used, groups = min(2, routing.n_used), (routing.n_groups, routing.n_groups_used)
        least = (used + 1) * min(2, groups[0]) * routing.fold
        if n_experts > least:
            groups, n_experts = (min(2, groups[0]), 1), least
        n = SMALL // 2
        weights = {role: cut(w, n_experts, *([n] * (len(w.shape) - 1)))
                   for role, w in node.weights.items()}
        widths = weights["router"].shape[1], used
        attrs = {**node.attrs, "n_used": used, "n_groups": groups[0], "n_groups_used": groups[1]}
        return replace(node, weights=weights, attrs=attrs,
                       inputs=tuple(map(narrowed, node.inputs, widths[:len(node.inputs)])))

    def flops(self, node: Node, limits: Limits) -> int:
        return 2 * limits.count(node.inputs[0].shape[:-1]) * node.weights["router"].n_elements

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """0 for a token whose best scores differ by more than rounding can change them, else the
        number of experts."""
        routing, x = Routing.of(node), inputs[0]
        off = product_error(x, ctx.weights["router"], 0).max(axis=-1) + 1e-6
        score = self._score(node, inputs, ctx)
        finite = np.where(np.isfinite(score), np.abs(score), 0.0).max(axis=-1)
        off = 4 * off * np.maximum(1.0, finite)
        best = np.sort(np.where(np.isinf(score), 1e30, score), axis=-1)[:, ::-1]
        gaps = -np.diff(best[:, :routing.n_used + 1], axis=-1)
        # Given experts have one score, and a lower number comes first.
        gaps = np.where(best[:, 1:routing.n_used + 1] >= 1e30, np.inf, gaps)
        is_open = (gaps < off[:, None]).any(axis=-1) | (routing.n_groups > 1)
        shape = (*x.shape[:-1], routing.n_used)
        return [np.broadcast_to(np.where(is_open, score.shape[-1], 0)[:, None], shape)]
