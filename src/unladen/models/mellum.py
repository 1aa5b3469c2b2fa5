"""Mellum 2 (JetBrains 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers
from unladen.models._parts.rope import rope_base


class Mellum(Decoder):
    """Queries and keys are normalized per head; three of four layers see a window, and their
    rotations aren't scaled for long contexts."""

    arch = "mellum"
    rope_style = "neox"

    def read_sliding(self) -> Sequence[bool]:
        if not self.hparams.int("attention.sliding_window", 0):
            return super().read_sliding()
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        local = self.rope_table(g, "rope_table_swa", base=rope_base(self.hparams), scaled=False)
        whole = self.rope_table(g)
        return [local if slides else whole for slides in self.sliding]
