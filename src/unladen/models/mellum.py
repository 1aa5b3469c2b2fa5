"""Mellum 2 (JetBrains 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class Mellum(Decoder):
    """A mixture of experts; norms of queries and keys; three of four layers may see a window, whose
    rotation is never stretched."""

    arch = "mellum"
    rope_style = "neox"

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 0) == 0:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, scaled=False)
