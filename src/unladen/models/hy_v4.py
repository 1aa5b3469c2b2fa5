"""Hunyuan V4 (Tencent 2026)."""

from __future__ import annotations

from collections.abc import Mapping

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr
from unladen.models._parts.experts import limit_attrs
from unladen.models._parts.hyper import HyperDecoder
from unladen.models._parts.mla import LatentDecoder


class HyV4(HyperDecoder, LatentDecoder):
    """Several residual streams, which aren't mixed; gated latent attention with sinks; experts'
    hidden units are clamped.

    An indexer selects ``attention.indexer.top_k`` keys. Where the file has one, the context is
    limited to ``top_k`` tokens. All keys are selected then, so the selection needs no computation.
    """

    arch = "hy_v4"
    attn_gate = "sigmoid"
    expert_gating = "sigmoid"
    yarn_in_scores = False

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        top_k = hparams.int("attention.indexer.top_k", 0)
        self.context_length = min(self.context_length, top_k or self.context_length)

    def n_hyper_weights(self) -> int:
        return 2 * self.n_streams

    def hyper_attrs(self) -> Mapping[str, Attr]:
        eps = self.hparams.float("hyper_connection.epsilon")
        return {"eps": eps, "out_eps": eps, "n_rounds": 0,
                "magnitude": self.hparams.float("hyper_connection.magnitude")}

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        limits = self.hparams.per_layer_float("swiglu_clamp_exp", self.n_layers, 0.0)
        return {"act": self.act, **limit_attrs(self.hparams, limits[g.layer])}

    def dense_attrs(self, g: GraphBuilder, suffix: str) -> dict[str, Attr]:
        return {"act": self.act}
