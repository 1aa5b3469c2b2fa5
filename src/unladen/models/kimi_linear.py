"""Kimi Linear (Kimi team 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.kda import delta_attention
from unladen.models._parts.mla import LatentDecoder


class KimiLinear(Hybrid, LatentDecoder):
    """Layers without key/value heads are delta attention; the others are latent attention without
    positional encoding."""

    arch = "kimi-linear"
    spare = frozenset({"attn_q.bias", "attn_k.bias", "attn_v.bias"})
    rope_style = ""
    expert_normalize = True

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return delta_attention(self, g, x, max(h.n_heads for h in self.heads))
