"""Gemma (Gemma team 2024)."""

from __future__ import annotations

import math

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Gemma(Decoder):
    """Embeddings are scaled by the root of their size; the gate is GELU."""

    arch = "gemma"
    rope_style = "neox"
    act = "gelu"

    def embed(self, g: GraphBuilder) -> Value:
        return self.scaled(g, super().embed(g), math.sqrt(self.n_embd), "embd_scaled")
