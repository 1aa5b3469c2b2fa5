"""Granite 4 with Mamba 2 layers (IBM 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.mamba import mamba2
from unladen.models.granite import Granite


class GraniteHybrid(Hybrid, Granite):
    """Granite whose layers without key/value heads are Mamba 2."""

    arch = "granitehybrid"

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return mamba2(self, g, x)
