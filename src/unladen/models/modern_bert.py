"""ModernBERT (Warner et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.encoder import Encoder
from unladen.models._parts.heads import sliding_layers


class ModernBert(Encoder):
    """Norms before each part except the first; the gate is GELU; two of three layers see a window
    on both sides and rotate with a smaller base."""

    arch = "modern-bert"
    rope_style = "neox"
    act = "gelu"
    ranking_act = "gelu"

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 0) == 0:
            return [False] * self.n_layers
        return sliding_layers(self.hparams, self.n_layers, 3, dense_first=True)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, 10000.0, scaled=False)

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), window_kind="symmetric")

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return Decoder.block(self, g, x, table)

    def norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        is_first = g.layer == 0 and part == "attn_norm" and not self.has(g, part)
        return x if is_first else super().norm(g, x, part)

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"embeddings": self.norm(g, x, "output_norm")}
