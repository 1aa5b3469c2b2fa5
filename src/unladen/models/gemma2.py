"""Gemma 2 (Gemma team 2024)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.heads import Heads, sliding_layers
from unladen.models.gemma import Gemma


def gemma_scale(n_embd: int, heads: Heads, *, is_27b: bool) -> float:
    """The factor of scores, which depends on the size of a head except in the 27B models."""
    return 1 / math.sqrt(n_embd // heads.n_heads if is_27b else heads.k_dim)


class Gemma2(Gemma):
    """Norms around attention and feed-forward; every other layer sees a window; scores and logits
    are capped."""

    arch = "gemma2"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 2)

    def window(self) -> int:
        return self.hparams.int("attention.sliding_window", 4096, minimum=1)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g)

    def scoring(self, layer: int) -> Scoring:
        scale = gemma_scale(self.n_embd, self.heads[layer], is_27b=self.n_layers == 46)
        cap = self.hparams.float("attn_logit_softcapping", 50.0)
        return replace(super().scoring(layer), scale=scale, softcap=cap)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.capped(g, super().head(g, x), 30.0)
