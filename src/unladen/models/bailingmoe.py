"""Ling (inclusionAI 2025)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class BailingMoe(Decoder):
    """Experts and shared experts; scores are scaled by the number of rotated dimensions."""

    arch = "bailingmoe"
    expert_normalize = False

    def scoring(self, layer: int) -> Scoring:
        n_rot = self.heads[layer].n_rot or self.heads[layer].k_dim
        return replace(super().scoring(layer), scale=n_rot ** -0.5)
