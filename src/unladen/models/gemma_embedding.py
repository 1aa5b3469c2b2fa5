"""EmbeddingGemma (Gemma team 2025)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models.gemma3 import Gemma3


class GemmaEmbedding(Gemma3):
    """Gemma 3 with bidirectional attention, also in layers with a window."""

    arch = "gemma-embedding"

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False, window_kind="symmetric")

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"embeddings": self.norm(g, x, "output_norm")}
