"""Falcon-H1 (TII 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.mamba import mamba2


class FalconH1(Decoder):
    """Attention and Mamba 2 side by side in every layer."""

    arch = "falcon-h1"
    rope_style = "neox"
    unbiased = frozenset({"attn_output"})

    def rope_factors(self, layer: int) -> str:
        return ""

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return g.one("add", super().attention(g, x, table), mamba2(self, g, x), name="mixed")
