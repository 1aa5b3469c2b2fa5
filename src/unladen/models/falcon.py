"""Falcon (Almazrouei et al. 2023)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Falcon(Decoder):
    """Layer norms; attention and a feed-forward of plain GELU side by side; in the large models
    attention has a norm of its own."""

    arch = "falcon"
    mixes_as_falcon = True
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "gelu"
    gated = False

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        normed = own = self.norm(g, x, "attn_norm")
        if self.has(g, "attn_norm_2"):
            own = self.norm(g, x, "attn_norm_2")
        y = self.residual(g, x, self.attention(g, own, table), "attn_residual")
        return self.residual(g, y, self.feed_forward(g, normed), "ffn_residual")
