"""Qwen 3 Next (Qwen team 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.delta_net import DeltaHeads, DeltaNet
from unladen.models._parts.layers import columns


class Qwen3Next(DeltaNet):
    """Delta nets and gated attention, with experts and a gated shared expert. The gates of all
    value heads of one key head are stored together."""

    arch = "qwen3next"
    spare = frozenset({"ssm_in"})  # the matrix for these products in old files

    def gates(self, g: GraphBuilder, x: Value, h: DeltaHeads) -> tuple[Value, Value]:
        (both,) = self.linear(g, x, {"ssm_ba": 2 * h.n_heads}, "ssm_ba")
        n = h.n_heads // h.n_k_heads
        return columns(g, both, "ssm_beta", 2 * n, 0, n), columns(g, both, "ssm_alpha", 2 * n, n, n)
