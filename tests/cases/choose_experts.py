"""Choices of experts that are never close."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.base import Case, Maker
from cases.moe import decided
from unladen.graph.graph import Attr
from unladen.graph.ops.routing import GATINGS


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for gating in GATINGS:
        for n_tokens, n_experts, n_used in ((1, 8, 2), (5, 16, 8), (40, 5, 1), (3, 4, 4)):
            yield one(rng, n_tokens, n_experts, n_used, gating)
    for twist in ("router_b", "select_b", "groups", "fold", "given"):
        for n_tokens in (1, 33):
            yield one(rng, n_tokens, 8, 3, "sigmoid", twist)


def one(rng: np.random.Generator, n_tokens: int, n_experts: int, n_used: int, gating: str,
        twist: str = "") -> Case:
    m = Maker(rng, n_tokens)
    n = int(rng.choice([32, 96]))
    weights = {"router": m.weight("router", n_experts, n)}
    if twist in ("router_b", "select_b"):
        weights[twist] = m.weight(twist, n_experts)
    attrs: dict[str, Attr] = {"n_used": n_used, "gating": gating}
    attrs |= {"n_groups": 4, "n_groups_used": 2} if twist == "groups" else {}
    attrs |= {"fold": 2} if twist == "fold" else {}
    inputs = [m.input("T", n, values=decided(m, weights, attrs))]
    if twist == "given":
        chosen = np.argsort(rng.random((n_tokens, n_experts)), axis=1)[:, :n_used]
        inputs, attrs = [*inputs, m.input("T", n_used, values=chosen)], {**attrs, "given": True}
    return m.case("choose_experts", *inputs, weights=weights, attrs=attrs)
