"""Dream (Ye et al. 2025)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Dream(Decoder):
    """Qwen 2 made to fill in tokens by diffusion: every token sees the whole text."""

    arch = "dream"
    rope_style = "neox"
    unbiased = frozenset({"output"})

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False)
