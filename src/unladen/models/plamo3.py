"""PLaMo 3 (Preferred Networks 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Plamo3(Decoder):
    """Norms around attention and feed-forward, and of queries and keys; seven of eight layers may
    see a window and rotate with a smaller base."""

    arch = "plamo3"
    rope_style = "neox"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 0) == 0:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 8)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, 10000.0, scaled=False)
