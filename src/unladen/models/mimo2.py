"""MiMo V2 (Xiaomi 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import KVSpec, Value
from unladen.models._parts.decoder import Decoder


class Mimo2(Decoder):
    """Most layers see a window and have attention sinks, some see everything; values are scaled."""

    arch = "mimo2"
    rope_style = "neox"
    expert_gating = "sigmoid"
    spare = frozenset({"ffn_gate", "ffn_up", "ffn_down"})  # of layers with experts
    unbiased = frozenset({"attn_qkv", "attn_q", "attn_k", "attn_v", "attn_output"})

    def read_sliding(self) -> Sequence[bool]:
        return self.hparams.per_layer_bool("attention.sliding_window_pattern", self.n_layers)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g)

    def read(self, g: GraphBuilder, q: Value, state: KVSpec) -> Value:
        scale = self.hparams.float("attention.value_scale", 0.0) or 1.0
        return self.scaled(g, super().read(g, q, state), scale, "attn_scaled")
