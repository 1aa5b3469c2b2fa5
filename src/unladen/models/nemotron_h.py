"""Nemotron-H (NVIDIA 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.mamba import mamba2


class NemotronH(Hybrid):
    """Each layer is only one of three: Mamba 2, attention without positional encoding, or a network
    of squared ReLU."""

    arch = "nemotron_h"
    rope_style = ""
    act = "relu_squared"
    gated = False
    expert_gating = "sigmoid"
    expert_normalize = False

    def read_eps(self) -> float:
        hp = self.hparams
        return hp.float("attention.layer_norm_rms_epsilon",
                        hp.float("attention.layer_norm_epsilon"))

    def n_ff(self, layer: int) -> int:
        return self.hparams.per_layer("feed_forward_length", self.n_layers)[layer]

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        normed = self.norm(g, x, self.attn_norm)
        part = self.feed_forward(g, normed) if self.n_ff(g.layer) else self.attention(
            g, normed, table)
        return self.residual(g, x, part, "residual")

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return mamba2(self, g, x)
