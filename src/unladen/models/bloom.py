"""BLOOM (BigScience 2022)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Bloom(Decoder):
    """Layer norms, also of the embeddings; plain GELU; ALiBi instead of rotations."""

    arch = "bloom"
    norm_op = "layer_norm"
    rope_style = ""
    act = "gelu"
    gated = False

    def embed(self, g: GraphBuilder) -> Value:
        return self.norm(g, super().embed(g), "token_embd_norm")

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), alibi=8.0)
