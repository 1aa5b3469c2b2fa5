"""Qwen 3.5 and 3.6, dense, text part (Qwen team 2026)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.delta_net import DeltaHeads, DeltaNet


class Qwen35(DeltaNet):
    """Delta nets and gated attention. For text all sections of a position are equal."""

    arch = "qwen35"
    tiled = True

    def gates(self, g: GraphBuilder, x: Value, h: DeltaHeads) -> tuple[Value, Value]:
        beta, alpha = self.linear(g, x, {"ssm_beta": h.n_heads, "ssm_alpha": h.n_heads},
                                  "ssm_gates")
        return beta, alpha
