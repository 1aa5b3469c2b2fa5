"""Encoders: every token sees the whole text, and a step gives embeddings instead of logits."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Encoder(Decoder):
    """An encoder built like BERT (Devlin et al. 2018): layer norms after each sum and after the
    embeddings. Where the file has token types, the embedding of the first type is added."""

    norm_op = "layer_norm"

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False)

    def embed(self, g: GraphBuilder) -> Value:
        x = super().embed(g)
        name = "token_types.weight"
        if name in self.tensors:
            types = self.tensors.weight(name, self.tensors.shape(name)[0], self.n_embd)
            x = g.one("add", x, name="token_types", weights={"b": types.rows(0, 1)})
        return self.norm(g, x, "token_embd_norm")

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y = self.residual(g, x, self.attention(g, x, table), "attn_residual")
        y = self.norm(g, y, "attn_output_norm")
        if self.has(g, "attn_norm_2"):
            y = self.norm(g, self.residual(g, y, x, "layer_residual"), "attn_norm_2")
        z = self.residual(g, y, self.feed_forward(g, y), "ffn_residual")
        return self.norm(g, z, "layer_output_norm")

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"embeddings": x}
