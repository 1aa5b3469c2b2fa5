"""Command R (Cohere 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class CommandR(Decoder):
    """Attention and feed-forward side by side under one layer norm; logits are scaled."""

    arch = "command-r"
    norm_op = "layer_norm"

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return self.parallel_block(g, x, table)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        # A scale of 0 means none.
        scale = self.hparams.float("logit_scale", 0.0) or 1.0
        return self.scaled(g, super().head(g, x), scale, "logits_scaled")
