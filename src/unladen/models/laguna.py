"""Laguna (poolside 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Laguna(Decoder):
    """Attention's output has a softplus gate, for each head or for each number. One layer of four
    sees everything; the others see a window and have rotations of their own."""

    arch = "laguna"
    rope_style = "neox"
    attn_gate = "softplus"
    expert_gating = "sigmoid"
    expert_normalize = False

    def read_sliding(self) -> Sequence[bool]:
        if not self.hparams.int("attention.sliding_window", 0):
            return super().read_sliding()
        return sliding_layers(self.hparams, self.n_layers, 4, dense_first=True)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, scaled=False)
