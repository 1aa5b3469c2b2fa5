"""OLMo 2 and 3 (OLMo team 2024, 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Olmo2(Decoder):
    """Norms after attention and feed-forward, and of all queries and all keys; three of four layers
    may see a window, and their rotations are never scaled for long contexts."""

    arch = "olmo2"
    rope_style = "neox"
    attn_norm = ffn_norm = ""
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 0) == 0:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, scaled=False)
