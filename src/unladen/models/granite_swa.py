"""Granite with windows (IBM 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.heads import sliding_layers
from unladen.models._parts.scaled import ScaledDecoder


class GraniteSwa(ScaledDecoder):
    """Some layers see a window, some have no positional encoding, all have attention sinks."""

    arch = "granite_swa"

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 0)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        turned = self.hparams.per_layer_bool("attention.rope_pattern", self.n_layers, True)
        table = self.rope_table(g)
        return [table if turns else None for turns in turned]
