"""LLaDA (Nie et al. 2025)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Llada(Decoder):
    """Llama made to fill in tokens by diffusion: every token sees the whole text."""

    arch = "llada"
    unbiased = frozenset({"attn_output", "ffn_gate", "ffn_up", "ffn_down"})

    def rope_factors(self, layer: int) -> str:
        return ""

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False)
