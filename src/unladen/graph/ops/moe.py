"""Mixture of experts: a router picks a few feed-forward networks for each token (Shazeer 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.activation import ACTIVATIONS
from unladen.graph.ops.base import SMALL, Array, Inferred, Op, RefContext, cut, narrowed
from unladen.graph.ops.linear import gated_error, product_error
from unladen.types import Limits

GATINGS = ("softmax", "sigmoid")


def first_expert(node: Node) -> int:
    """The first of the experts that ``node`` holds."""
    return node.int_attr("first_expert") if "first_expert" in node.attrs else 0


class Moe(Op):
    """``y[t] = sum_e p[t, e] * down_e(act(gate_e x) * up_e x)`` over the experts chosen for t.

    x f32 [T, n]. Weights ``router`` [E, n], ``gate`` and ``up`` [H, n_ff, n], ``down``
    [H, n, n_ff]; optional ``router_b`` [E]. Attributes: ``n_used`` experts per token (the largest
    probabilities, the lower index wins a tie), ``gating`` over all experts, ``normalize`` the
    chosen to sum 1, ``scale`` of the result, ``act``. Without ``first_expert`` H is E; with it the
    node holds the experts ``first_expert .. first_expert + H`` and leaves the others out of the
    sum, though not out of the choice.
    """

    name = "moe"
    takes_quants = True

    def infer(self, node: Node) -> Inferred:
        (x,) = node.inputs
        w = node.weights
        n_experts = w["router"].shape[0]
        n_held, n_ff, n = w["gate"].shape
        assert w["router"].shape == (n_experts, n) and x.shape[-1] == n
        assert w["up"].shape == (n_held, n_ff, n) and w["down"].shape == (n_held, n, n_ff)
        assert "first_expert" in node.attrs or n_held == n_experts
        assert 0 <= first_expert(node) <= n_experts - n_held <= n_experts - 1
        assert "router_b" not in w or w["router_b"].shape == (n_experts,)
        assert 1 <= node.int_attr("n_used") <= n_experts
        assert node.attrs["gating"] in GATINGS and node.attrs["act"] in ACTIVATIONS
        return [(x.shape, "f32")]

    def route(self, node: Node, x: Array, ctx: RefContext) -> tuple[Array, Array]:
        """Chosen experts int [T, n_used], best first, and their weights float64 [T, n_used]."""
        logits = x @ ctx.weights["router"].T + ctx.weights.get("router_b", 0.0)
        if node.attrs["gating"] == "softmax":
            p = np.exp(logits - logits.max(axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
        else:
            p = 1 / (1 + np.exp(-logits))
        chosen = np.argsort(-p, axis=-1, kind="stable")[:, :node.int_attr("n_used")]
        picked = np.take_along_axis(p, chosen, axis=-1)
        if node.attrs["normalize"]:
            picked = picked / picked.sum(axis=-1, keepdims=True)
        return chosen, picked * node.float_attr("scale")

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        (x,) = inputs
        act = ACTIVATIONS[str(node.attrs["act"])]
        chosen, weight = self.route(node, x, ctx)
        y = np.zeros_like(x)
        for e in range(len(ctx.weights["gate"])):
            rows, slot = np.nonzero(chosen == first_expert(node) + e)
            hidden = act(x[rows] @ ctx.weights["gate"][e].T) * (x[rows] @ ctx.weights["up"][e].T)
            y[rows] += weight[rows, slot, None] * (hidden @ ctx.weights["down"][e].T)
        return [y]

    def shrunk(self, node: Node) -> Node:
        n_used = min(2, node.int_attr("n_used"))
        n = SMALL // 2
        weights = {role: cut(w, n_used + 1, n, n) for role, w in node.weights.items()}
        first = min(first_expert(node), weights["router"].shape[0] - weights["gate"].shape[0])
        attrs = {**node.attrs, "n_used": n_used, "first_expert": first}
        x = narrowed(node.inputs[0], weights["router"].shape[1])
        return replace(node, weights=weights, attrs=attrs, inputs=(x,))

    def flops(self, node: Node, limits: Limits) -> int:
        n_ff, n = node.weights["gate"].shape[1:]
        rows = limits.count(node.inputs[0].shape[:-1])
        n_experts, n_held = node.weights["router"].shape[0], node.weights["gate"].shape[0]
        n_used = node.int_attr("n_used") * n_held / n_experts
        return round(2 * rows * n * (n_experts + 3 * n_ff * n_used))

    def bytes_moved(self, node: Node, limits: Limits, weight_bytes: Callable[[str], int]) -> int:
        rows = limits.count(node.inputs[0].shape[:-1])
        share = min(1.0, rows * node.int_attr("n_used") / node.weights["router"].shape[0])
        experts = sum(weight_bytes(node.weights[r].name) for r in ("gate", "up", "down"))
        values = 4 * sum(limits.count(v.shape) for v in (*node.inputs, *node.outputs))
        return values + int(share * experts) + weight_bytes(node.weights["router"].name)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """Holds where the choice of experts is the same, which a test must see to."""
        (x,) = inputs
        act = str(node.attrs["act"])
        chosen, weight = self.route(node, x, ctx)
        router = product_error(x, ctx.weights["router"], 0).max(axis=-1, keepdims=True)
        bound = np.zeros_like(x)
        for e in range(len(ctx.weights["gate"])):
            rows, slot = np.nonzero(chosen == first_expert(node) + e)
            if not len(rows):
                continue
            gate, up, down = (ctx.weights[r][e] for r in ("gate", "up", "down"))
            g, u = x[rows] @ gate.T, x[rows] @ up.T
            hidden = ACTIVATIONS[act](g) * u
            off = gated_error(act, g, u,
                              product_error(x[rows], gate, ctx.act_block.get("gate", 0)),
                              product_error(x[rows], up, ctx.act_block.get("up", 0)))
            total = off @ np.abs(down).T + product_error(np.abs(hidden) + off, down,
                                                         ctx.act_block.get("down", 0))
            p = weight[rows, slot, None]
            bound[rows] += p * total + 4 * (router[rows] + 1e-6) * p * np.abs(hidden @ down.T)
        return [bound]
