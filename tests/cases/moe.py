"""Mixtures of experts whose choices are never close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cases.base import Array, Case, Maker
from unladen import quants
from unladen.graph.graph import Attr, Weight
from unladen.graph.ops.activation import ACTIVATIONS
from unladen.graph.ops.routing import GATINGS, Routing

MARGIN = 1e-4
TWISTS = ("router_b", "select_b", "gate_b", "up_b", "down_b", "down_scale", "gate_up", "gateless",
          "limit", "groups", "by", "weigh_input", "given", "slots")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for act in ACTIVATIONS:
        yield one(rng, 4, 5, 2, act, "F32", "F32")
    for n_tokens, n_experts, n_used, gate, down in [
            (1, 8, 2, "F32", "F16"), (1, 4, 4, "Q8_0", "Q8_0"), (2, 3, 1, "Q4_0", "Q8_0"),
            (33, 8, 3, "Q4_K", "Q6_K"), (70, 6, 2, "Q5_0", "Q4_0"), (5, 16, 8, "Q4_K", "Q8_0"),
            (3, 1, 1, "IQ4_XS", "F32"), (64, 2, 1, "Q8_0", "Q5_1")]:
        yield one(rng, n_tokens, n_experts, n_used, "silu", gate, down)
    for n_tokens, n_experts, n_used, held, gate, down in [
            (1, 8, 2, (5, 1), "F32", "F16"), (1, 4, 4, (0, 3), "Q8_0", "Q8_0"),
            (5, 16, 3, (12, 4), "Q4_K", "Q8_0"), (33, 6, 2, (2, 3), "Q5_0", "Q4_0"),
            (70, 5, 4, (4, 1), "Q8_0", "F32"), (64, 3, 1, (0, 1), "F32", "Q5_1")]:
        yield one(rng, n_tokens, n_experts, n_used, "silu", gate, down, held)
    for gating in GATINGS:
        for n_tokens in (1, 5, 40):
            yield one(rng, n_tokens, 8, 3, "silu", "F32", "F32", gating=gating)
    for twist in TWISTS:
        for n_tokens, gate, held in ((1, "F32", None), (5, "Q8_0", (2, 4)), (40, "F32", None)):
            yield one(rng, n_tokens, 8, 3, "gelu_quick", gate, "F32", held, twists=(twist,))
    for n_tokens in (1, 40):
        yield one(rng, n_tokens, 8, 3, "silu", "F32", "F32", twists=("limit", "gate_limit"))
        yield one(rng, n_tokens, 8, 3, "silu", "F32", "F32", (2, 4), "sqrt_softplus",
                  ("given", "by", "select_b"))
    for n_tokens, gate, down in ((1, "Q8_0", "Q8_0"), (3, "MXFP4", "F16"), (50, "F16", "F32")):
        # A cut far below the size of products leaves little but their rounding.
        suited = [t for t in TWISTS if t not in ("limit", "given")]
        several = rng.choice(suited, 5, replace=False)
        yield one(rng, n_tokens, 8, 3, "silu", gate, down, twists=tuple(several))


def one(rng: np.random.Generator, n_tokens: int, n_experts: int, n_used: int, act: str, gate: str,
        down: str, held: tuple[int, int] | None = None, gating: str = "",
        twists: tuple[str, ...] = ()) -> Case:
    """``held``: the first of the experts that the node holds, and their number; None: all."""
    first, n_held = held or (0, n_experts)
    m = Maker(rng, n_tokens)
    n = 512 if quants.get(gate).block_size > 32 else int(rng.choice([32, 96]))
    n_ff = 256 if quants.get(down).block_size > 32 else int(rng.choice([32, 160]))
    n_router = 48 if "by" in twists else n
    weights = {"router": m.weight("router", n_experts, n_router),
               **_matrices(m, n_held, n_ff, n, gate, twists),
               "down": m.weight("down", n_held, n, n_ff, quant=down)}
    sizes = {"router_b": (n_experts,), "select_b": (n_experts,), "gate_b": (n_held, n_ff),
             "up_b": (n_held, n_ff), "down_b": (n_held, n), "down_scale": (n_held,)}
    for role, size in sizes.items():
        if role in twists and not (role == "gate_b" and "gateless" in twists):
            weights[role] = m.weight(role, *size)
    attrs: dict[str, Attr] = {
        "n_used": n_used, "gating": gating or str(rng.choice(["softmax", "sigmoid"])),
        "normalize": gating != "softmax_chosen" and bool(rng.random() < 0.6),
        "scale": float(rng.choice([1.0, 2.5])), "act": act}
    if "slots" in twists:
        slots = np.full(n_experts, -1)
        slots[rng.permutation(n_experts)[:n_held - 1]] = rng.permutation(n_held)[1:]
        weights["slot_of"] = m.weight("slot_of", n_experts)
        m.weights["slot_of"] = slots.astype(np.float32).view(np.uint8)
    elif held is not None:
        attrs["first_expert"] = first
    attrs |= {"limit": 0.7, "up_offset": 1.0} if "limit" in twists else {}
    attrs |= {"gate_limit": 0.4} if "gate_limit" in twists else {}
    attrs |= {"n_groups": 4, "n_groups_used": 2} if "groups" in twists else {}
    attrs |= {"weigh_input": True} if "weigh_input" in twists else {}
    seen = m.input("T", n_router, values=decided(m, weights, attrs))
    inputs = (m.input("T", n), seen) if "by" in twists else (seen,)
    if "given" in twists:
        chosen = np.argsort(rng.random((n_tokens, n_experts)), axis=1)[:, :n_used]
        inputs, attrs = (*inputs, m.input("T", n_used, values=chosen)), {**attrs, "given": True}
    return m.case("moe", *inputs, weights=weights, attrs=attrs)


def _matrices(m: Maker, n_held: int, n_ff: int, n: int, gate: str, twists: tuple[str, ...]
              ) -> dict[str, Weight]:
    if "gate_up" in twists and "gateless" not in twists:
        return {"gate_up": m.weight("gate_up", n_held, 2 * n_ff, n, quant=gate)}
    up = gate if m.rng.random() < 0.7 or gate == "F32" else "F16"
    matrices = {} if "gateless" in twists else {
        "gate": m.weight("gate", n_held, n_ff, n, quant=gate)}
    return {**matrices, "up": m.weight("up", n_held, n_ff, n, quant=up)}


def decided(m: Maker, weights: Mapping[str, Weight], attrs: Mapping[str, Attr]) -> Array:
    """Rows for which the best experts, and groups, lead and differ by more than any rounding."""
    rng, n_tokens = m.rng, m.batch.n_tokens
    given = {role: m.weights[role].view(np.float32).astype(np.float64).reshape(weights[role].shape)
             for role in ("router", "router_b", "select_b") if role in weights}
    routing = Routing(**{k: v for k, v in attrs.items()  # type: ignore[arg-type]
                         if k in Routing.__slots__})
    n = given["router"].shape[1]
    rows: list[Array] = []
    while len(rows) < n_tokens:
        x = (rng.standard_normal(n) / n ** 0.5).astype(np.float32)
        logits = given["router"] @ x + given.get("router_b", 0.0)
        if _is_decided(GATINGS[routing.gating](logits[None])[0] + given.get("select_b", 0.0),
                       routing):
            rows.append(x)
    return np.array(rows)


def _is_decided(score: Array, routing: Routing) -> bool:
    groups = np.sort(score.reshape(routing.n_groups, -1))
    worth = groups[:, -2:].sum(axis=-1)
    order = np.argsort(-worth)
    kept = np.sort(groups[order[:routing.n_groups_used]].reshape(-1))[::-1]
    return bool(np.all(-np.diff(kept)[:routing.n_used] > MARGIN) and np.all(
        -np.diff(worth[order])[:routing.n_groups_used] > 2 * MARGIN))
