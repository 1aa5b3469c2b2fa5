"""Trinity (Arcee 2025)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Afmoe(Decoder):
    """Norms before and after each part; attention's output times a sigmoid gate. Three of four
    layers see a window, the fourth has no positional encoding."""

    arch = "afmoe"
    rope_style = "neox"
    attn_gate = "sigmoid"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"
    expert_gating = "sigmoid"
    expert_normalize = False

    def embed(self, g: GraphBuilder) -> Value:
        return self.scaled(g, super().embed(g), math.sqrt(self.n_embd), "embd_scaled")

    def read_sliding(self) -> Sequence[bool]:
        if not self.hparams.int("attention.sliding_window", 0):
            return super().read_sliding()
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        tables = self.local_positions(g)
        return [None if layer % 4 == 3 else table for layer, table in enumerate(tables)]
