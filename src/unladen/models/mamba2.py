"""Mamba 2 (Dao and Gu 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.mamba import mamba2
from unladen.models.mamba import Mamba


class Mamba2(Mamba):
    """All layers are Mamba 2."""

    arch = "mamba2"

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return mamba2(self, g, x)
