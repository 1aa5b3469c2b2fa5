"""Jais (Sengupta et al. 2023)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Jais(Decoder):
    """Layer norms; ALiBi instead of rotations; scores are divided by the size of a head."""

    arch = "jais"
    norm_op = "layer_norm"
    rope_style = ""

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), scale=1 / self.heads[layer].k_dim,
                       alibi=self.hparams.float("attention.max_alibi_bias", 0.0))
