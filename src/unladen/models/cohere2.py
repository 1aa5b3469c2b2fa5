"""Command R7B and Command A (Cohere 2024, 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.heads import sliding_layers
from unladen.models.command_r import CommandR


class Cohere2(CommandR):
    """Three of four layers see a window; the fourth sees everything and has no positional
    encoding."""

    arch = "cohere2"

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        table = self.rope_table(g)
        return [table if slides else None for slides in self.sliding]
