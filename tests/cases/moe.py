"""Mixtures of experts whose choices are never close."""

from collections.abc import Iterator

import numpy as np

from cases.base import Array, Case, Maker
from unladen import quants
from unladen.graph.ops.activation import ACTIVATIONS


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


def one(rng: np.random.Generator, n_tokens: int, n_experts: int, n_used: int, act: str, gate: str,
        down: str, held: tuple[int, int] | None = None) -> Case:
    """``held``: the first of the experts that the node holds, and their number; None: all."""
    first, n_held = held or (0, n_experts)
    m = Maker(rng, n_tokens)
    n = 512 if quants.get(gate).block_size > 32 else int(rng.choice([32, 96]))
    n_ff = 256 if quants.get(down).block_size > 32 else int(rng.choice([32, 160]))
    up = gate if rng.random() < 0.7 or gate == "F32" else "F16"
    weights = {
        "router": m.weight("router", n_experts, n),
        "gate": m.weight("gate", n_held, n_ff, n, quant=gate),
        "up": m.weight("up", n_held, n_ff, n, quant=up),
        "down": m.weight("down", n_held, n, n_ff, quant=down)}
    bias = np.zeros(n_experts)
    if rng.random() < 0.5:
        weights["router_b"] = m.weight("router_b", n_experts)
        bias = m.weights["router_b"].view(np.float32).astype(np.float64)
    router = m.weights["router"].view(np.float32).reshape(n_experts, n).astype(np.float64)
    x = m.input("T", n, values=_decided(rng, n_tokens, router, bias, n_used))
    return m.case("moe", x, weights=weights, attrs={
        **({} if held is None else {"first_expert": first}),
        "n_used": n_used, "gating": str(rng.choice(["softmax", "sigmoid"])),
        "normalize": bool(rng.random() < 0.6), "scale": float(rng.choice([1.0, 2.5])), "act": act})


def _decided(rng: np.random.Generator, n_tokens: int, router: Array, bias: Array, n_used: int
             ) -> Array:
    """Rows for which the best ``n_used`` experts lead, and differ, by more than any rounding."""
    rows: list[Array] = []
    n = router.shape[1]
    while len(rows) < n_tokens:
        x = (rng.standard_normal(n) / n ** 0.5).astype(np.float32)
        logits = np.sort(router @ x + bias)[::-1]
        if np.all(-np.diff(logits)[:n_used] > 1e-4):
            rows.append(x)
    return np.array(rows)
