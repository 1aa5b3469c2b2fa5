"""Spark 2.5 (iFLYTEK 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Spark2_5(Decoder):
    """Some layers see a window and have rotations of their own; heads have a gate each; the gate of
    the feed-forward is GELU."""

    arch = "spark2_5"
    attn_gate = "sigmoid"
    rope_style = "neox"
    act = "gelu"

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 0)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g)
