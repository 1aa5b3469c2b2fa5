"""EXAONE 4 (LG AI Research 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Exaone4(Decoder):
    """Norms after attention and feed-forward, and of queries and keys. In the model of 32B three of
    four layers see a window, and the fourth has no positional encoding."""

    arch = "exaone4"
    rope_style = "neox"
    attn_norm = ffn_norm = ""
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        if self.n_layers != 64:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 4)

    def window(self) -> int:
        return self.hparams.int("attention.sliding_window", 4096, minimum=1)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        table = self.rope_table(g)
        return [table if slides or not any(self.sliding) else None for slides in self.sliding]
