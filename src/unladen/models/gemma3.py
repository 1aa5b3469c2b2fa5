"""Gemma 3, text part (Gemma team 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.heads import sliding_layers
from unladen.models.gemma import Gemma
from unladen.models.gemma2 import gemma_scale


class Gemma3(Gemma):
    """Norms around attention and feed-forward, and of queries and keys; five of six layers see a
    window and rotate with a smaller base."""

    arch = "gemma3"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 0) == 0:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 6)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, 10000.0, scaled=False)

    def scoring(self, layer: int) -> Scoring:
        scale = gemma_scale(self.n_embd, self.heads[layer], is_27b=self.n_layers == 62)
        return replace(super().scoring(layer), scale=scale)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.capped(g, super().head(g, x))
