"""Talkie (2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Talkie(Decoder):
    """Norms without weights, also of the embeddings, which every layer adds again. Queries and keys
    are normalized after their rotation, queries with a factor for each head; logits are scaled."""

    arch = "talkie"
    rope_style = "neox"
    norm_weights = False
    norm_after_rope = True

    def embed(self, g: GraphBuilder) -> Value:
        return self.plain_norm(g, super().embed(g), "embd_norm")

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        first = x
        for layer in range(self.n_layers):
            g.layer = layer
            x = self.block(g, x, tables[layer])
            scale = self.tensors.weight(self.name(g, "layer_output_scale.weight"), 1)
            skip = g.one("scale", first, name="skip", weights={"w": scale}, attrs={"s": 1.0})
            x = g.one("add", x, skip, name="skip_residual")
        return x

    def head_norms(self, g: GraphBuilder, q: Value, k: Value) -> tuple[Value, Value]:
        h = self.heads[g.layer]
        q, k = (self.plain_norm(g, x, f"attn_{name}_norm", h.k_dim)
                for name, x in (("q", q), ("k", k)))
        factors = self.tensors.weight(self.name(g, "attn_q_norm.weight"), h.n_heads, 1)
        return g.one("scale", q, name="attn_q_scaled", weights={"w": factors},
                     attrs={"s": 1.0}), k

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.scaled(g, super().head(g, x), self.hparams.float("logit_scale"),
                           "logits_scaled")
