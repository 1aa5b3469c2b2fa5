"""SmolLM 3 (Hugging Face 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class SmolLm3(Decoder):
    """Every fourth layer has no positional encoding."""

    arch = "smollm3"

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        tables = super().positions(g)
        return [None if (i + 1) % 4 == 0 else table for i, table in enumerate(tables)]
