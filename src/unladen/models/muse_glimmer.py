"""Muse Glimmer (2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers

POST_NORM_EPS = 1e-8
"""Epsilon of the norms after attention and after the feed-forward network."""


class MuseGlimmer(Decoder):
    """Norms of the embeddings, around attention and feed-forward, and of queries and keys; a gate
    for attention's output; layers that see everything have no positional encoding; logits are
    scaled and capped."""

    arch = "muse-glimmer"
    attn_gate = "sigmoid"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return [table if slides else None
                for table, slides in zip(self.local_positions(g), self.sliding, strict=True)]

    def embed(self, g: GraphBuilder) -> Value:
        return self.plain_norm(g, super().embed(g), "embd_norm")

    def norm_eps(self, part: str) -> float:
        return POST_NORM_EPS if part.startswith("post_") else self.eps

    def head(self, g: GraphBuilder, x: Value) -> Value:
        logits = self.scaled(g, super().head(g, x), self.hparams.float("logit_scale"),
                             "logits_scaled")
        return self.capped(g, logits)
