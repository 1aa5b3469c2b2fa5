"""Llama 4 (Meta 2025), text part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers

N_EXPERTS_UNNORMED = 128
"""A model with this many experts (Maverick) doesn't normalize queries and keys."""


class Llama4(Decoder):
    """Three of four layers see a chunk of 8192 tokens and normalize queries and keys after they are
    rotated. The fourth has no positional encoding; its scores grow with the position. Experts'
    weights are sigmoids and multiply the experts' inputs."""

    arch = "llama4"
    norm_after_rope = True
    expert_gating = "sigmoid"
    expert_normalize = False
    weigh_input = True

    def read_sliding(self) -> Sequence[bool]:
        if self.hparams.int("attention.sliding_window", 1) == 0:
            return super().read_sliding()
        return sliding_layers(self.hparams, self.n_layers, 4)

    def window(self) -> int:
        return 8192

    def head_norms(self, g: GraphBuilder, q: Value, k: Value) -> tuple[Value, Value]:
        if not self.is_rotated(g.layer):
            return self.tempered(g, q), k
        if self.hparams.int("expert_count", 0) == N_EXPERTS_UNNORMED:
            return q, k
        dim = self.heads[g.layer].k_dim
        return self.plain_norm(g, q, "q_norm", dim), self.plain_norm(g, k, "k_norm", dim)

    def tempered(self, g: GraphBuilder, q: Value) -> Value:
        """Queries times a factor that grows with their position."""
        scale = g.one("position_scale", g.inputs["positions"], name="temperature",
                      attrs={"scale": 0.1, "length": 8192, "offset": 1})
        return g.one("glu", scale, q, name="q_tempered", attrs={"act": "identity"})

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), window_kind="chunked")

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        if not any(self.sliding):
            return super().positions(g)
        return [table if self.is_rotated(layer) else None
                for layer, table in enumerate(self.local_positions(g))]

    def is_rotated(self, layer: int) -> bool:
        """Whether ``layer`` has rotary embedding."""
        return layer % 4 != 3 or not any(self.sliding)
