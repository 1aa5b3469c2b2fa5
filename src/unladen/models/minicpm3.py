"""MiniCPM 3 (OpenBMB 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.attention import Attention
from unladen.models._parts.mla import LatentDecoder
from unladen.models.minicpm import MiniCpm


class MiniCpm3(MiniCpm, LatentDecoder):
    """MiniCPM with latent attention, whose rotations and scores are as in other models."""

    arch = "minicpm3"
    rope_style = "neox"

    def scoring(self, layer: int) -> Scoring:
        return Attention.scoring(self, layer)

    def rope_table(self, g: GraphBuilder, name: str = "rope_table", *, layer: int = 0,
                   base: float | None = None, scaled: bool = True) -> Value:
        return Attention.rope_table(self, g, name, layer=layer, base=base, scaled=scaled)
