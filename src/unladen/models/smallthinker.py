"""SmallThinker (Song et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.experts import mixture
from unladen.models._parts.heads import sliding_layers


class SmallThinker(Decoder):
    """The router reads the layer's input before attention, so that experts can be fetched
    meanwhile. The first of every four layers sees everything and has no positional encoding."""

    arch = "smallthinker"
    rope_style = "neox"
    act = "relu"
    expert_gating = "sigmoid"

    def read_sliding(self) -> Sequence[bool]:
        if not self.hparams.int("attention.sliding_window", 0):
            return super().read_sliding()
        return sliding_layers(self.hparams, self.n_layers, 4, dense_first=True)

    def window(self) -> int:
        return 4096

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        if not any(self.sliding):
            return super().positions(g)
        return [None if layer % 4 == 0 else table
                for layer, table in enumerate(self.local_positions(g))]

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y = self.attention(g, self.norm(g, x, "attn_norm"), table)
        y = self.residual(g, x, y, "attn_residual")
        return self.residual(g, y, mixture(self, g, self.norm(g, y, "ffn_norm"), x),
                             "ffn_residual")
