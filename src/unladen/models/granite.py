"""Granite 3 and 4, dense (IBM 2024, 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.scaled import ScaledDecoder


class Granite(ScaledDecoder):
    """Embeddings, residuals and logits are scaled; there are models without positions."""

    arch = "granite"

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        if not self.hparams.bool("rope.scaling.finetuned", True):
            return [None] * self.n_layers
        return super().positions(g)
