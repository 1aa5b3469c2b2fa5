"""DeciLM and Llama Nemotron (Deci 2023, NVIDIA 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Deci(Decoder):
    """Llama, pruned by an architecture search: a layer may lack attention or the feed-forward
    network, or have one matrix in place of attention."""

    arch = "deci"
    n_layers_70b = 80
    fewest_heads = 0
    layers_may_be_empty = True

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        heads = self.heads[g.layer]
        for n, part, key in ((heads.n_heads, "attn_output", "attention.head_count"),
                             (heads.n_kv_heads, "attn_k", "attention.head_count_kv"),
                             (self.n_ff(g.layer), "ffn_down", "feed_forward_length")):
            if not n:
                self.tensors.refuse(self.name(g, f"{part}.weight"), f"{self.arch}.{key}")
        if heads.n_heads:
            y = self.norm(g, x, self.attn_norm)
            if heads.n_kv_heads:
                y = self.attention(g, y, table)
            else:
                (y,) = self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")
            x = self.residual(g, x, y, "attn_residual")
        if self.n_ff(g.layer):
            y = self.feed_forward(g, self.norm(g, x, self.ffn_norm))
            x = self.residual(g, x, y, "ffn_residual")
        return x

    def n_ff(self, layer: int) -> int:
        return self.hparams.per_layer("feed_forward_length", self.n_layers)[layer]
