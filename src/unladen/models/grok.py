"""Grok 1 and 2 (xAI 2024, 2025)."""

from __future__ import annotations

import math
from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Grok(Decoder):
    """Norms before and after each part; capped scores; in Grok 2 a dense network beside the
    experts. The default scales are those of Grok 1."""

    arch = "grok"
    rope_style = "neox"
    act = "gelu"
    attn_post_norm = "attn_output_norm"

    def embed(self, g: GraphBuilder) -> Value:
        scale = self.hparams.float("embedding_scale", 78.38367176906169)
        return self.scaled(g, super().embed(g), scale, "embd_scaled")

    def scoring(self, layer: int) -> Scoring:
        hp = self.hparams
        return replace(super().scoring(layer),
                       scale=hp.float("attention.output_scale", 0.08838834764831845),
                       softcap=hp.float("attn_logit_softcapping", 30.0))

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        y = self.experts(g, x)
        if self.has(g, "ffn_up"):
            both = g.one("add", self.dense(g, x, self.n_ff(g.layer)), y, name="ffn_both")
            y = self.scaled(g, both, math.sqrt(0.5), "ffn_scaled")
        after = "layer_output_norm" if self.has(g, "layer_output_norm") else "post_ffw_norm"
        return self.norm(g, y, after)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        scale = self.hparams.float("logit_scale", 0.5773502691896257)
        return self.scaled(g, super().head(g, x), scale, "logits_scaled")
