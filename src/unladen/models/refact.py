"""Refact (Small Magellanic Cloud AI 2023)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Refact(Decoder):
    """ALiBi instead of rotations."""

    arch = "refact"
    rope_style = ""
    unbiased = frozenset({"attn_output", "ffn_gate", "ffn_up", "ffn_down"})

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), alibi=8.0)
