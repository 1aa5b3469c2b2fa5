"""StableLM (Stability AI 2023)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class StableLm(Decoder):
    """Layer norms, also of heads; the models that lack the second norm of a layer have attention
    and feed-forward side by side."""

    arch = "stablelm"
    norm_op = "layer_norm"
    rope_style = "neox"

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        if not self.has(g, self.ffn_norm):
            return self.parallel_block(g, x, table)
        return super().block(g, x, table)
