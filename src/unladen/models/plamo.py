"""PLaMo (Preferred Networks 2023)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Plamo(Decoder):
    """Attention and feed-forward side by side under one norm."""

    arch = "plamo"
    rope_style = "neox"

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return self.parallel_block(g, x, table)
