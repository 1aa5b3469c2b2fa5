"""Ling 3 (inclusionAI 2026)."""

from __future__ import annotations

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.experts import silu_limit_attrs
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.kda import bounded_decay, delta_attention
from unladen.models._parts.mla import LatentDecoder


class BailingMoe3(Hybrid, LatentDecoder):
    """Layers without key/value heads are delta attention; the others are latent attention with a
    gate for each head. Hidden units are clamped after their gate. Where a position has sections,
    the rotary embedding is NeoX's; for text all sections are equal."""

    arch = "bailingmoe3"
    spare = frozenset({"attn_q.bias", "attn_k.bias", "attn_v.bias"})
    attn_gate = "sigmoid"
    expert_gating = "sigmoid"
    yarn_in_scores = False

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        key = "rope.dimension_sections"
        if key in hparams and all(hparams.numbers(key)[:2]):
            self.rope_style = "neox"

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return delta_attention(self, g, x, max(h.n_heads for h in self.heads), bounded_decay(1.0))

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        return self._cut_at(g, "swiglu_clamp_exp")

    def dense_attrs(self, g: GraphBuilder, suffix: str) -> dict[str, Attr]:
        return self._cut_at(g, "swiglu_clamp_shexp")

    def _cut_at(self, g: GraphBuilder, key: str) -> dict[str, Attr]:
        limits = self.hparams.per_layer_float(key, self.n_layers, 0.0)
        return {"act": self.act, **silu_limit_attrs(self.hparams, limits[g.layer])}
