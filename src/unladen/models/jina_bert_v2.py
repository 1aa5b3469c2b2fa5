"""Jina Embeddings 2 (Günther et al. 2023)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.encoder import Encoder


class JinaBertV2(Encoder):
    """ALiBi instead of learned positions; the gate is GELU."""

    arch = "jina-bert-v2"
    rope_style = ""
    act = "gelu"

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), alibi=8.0)
