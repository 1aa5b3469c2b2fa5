"""Decoders made to fill in tokens by diffusion (Nie et al. 2025)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class DiffusionDecoder(Decoder):
    """Every token sees the whole text."""

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False)
