"""Arctic (Snowflake 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Arctic(Decoder):
    """A dense network after attention, and experts in parallel to both."""

    arch = "arctic"

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y = self.attention(g, self.norm(g, x, "attn_norm"), table)
        y = self.residual(g, x, y, "attn_residual")
        dense = self.dense(g, self.norm(g, y, "ffn_norm"), self.n_embd)
        y = self.residual(g, y, dense, "ffn_residual")
        return self.residual(g, y, self.experts(g, self.norm(g, x, "ffn_norm_exps")),
                             "experts_residual")
