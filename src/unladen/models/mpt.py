"""MPT (MosaicML 2023)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.learned import LearnedPositions


class Mpt(LearnedPositions):
    """Layer norms; plain GELU; ALiBi instead of rotations, in some files learned positions;
    queries, keys and values may be clamped."""

    arch = "mpt"
    norm_op = "layer_norm"
    act = "gelu"
    gated = False
    positions_required = False
    spare = frozenset({"attn_k_norm"})  # some files have it without a norm of queries

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer),
                       alibi=self.hparams.float("attention.max_alibi_bias", 0.0))

    def head_norms(self, g: GraphBuilder, q: Value, k: Value) -> tuple[Value, Value]:
        return super().head_norms(g, q, k) if self.has(g, "attn_q_norm") else (q, k)

    def hidden(self, g: GraphBuilder, x: Value, n_ff: int, suffix: str = "") -> Value:
        y = super().hidden(g, x, n_ff, suffix)
        scales = self.tensors.optional(self.name(g, "ffn.act.scales"), n_ff)
        if scales is None:
            return y
        return g.one("scale", y, name="ffn_act_scaled", weights={"w": scales},
                     attrs={"s": 1.0, "divide": True})
