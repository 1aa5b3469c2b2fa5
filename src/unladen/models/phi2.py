"""Phi 1.5 and 2 (Microsoft 2023)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Phi2(Decoder):
    """Attention and a feed-forward of plain GELU side by side under one layer norm."""

    arch = "phi2"
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "gelu"
    gated = False

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return self.parallel_block(g, x, table)
