"""LLaDA (Nie et al. 2025)."""

from __future__ import annotations

from unladen.models._parts.diffusion import DiffusionDecoder


class Llada(DiffusionDecoder):
    """Llama trained to fill in tokens."""

    arch = "llada"
    unbiased = frozenset({"attn_output", "ffn_gate", "ffn_up", "ffn_down"})

    def rope_factors(self, layer: int) -> str:
        return ""
