"""Decoders whose files scale embeddings, residuals and logits (muP, Yang et al. 2022)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class ScaledDecoder(Decoder):
    """``embedding_scale`` and ``residual_scale`` multiply, ``logit_scale`` divides. Where a key is
    0 or missing, :meth:`default_scale` is used."""

    def embed(self, g: GraphBuilder) -> Value:
        return self.scaled(g, super().embed(g), self.scale_of("embedding_scale"), "embd_scaled")

    def residual(self, g: GraphBuilder, x: Value, y: Value, name: str) -> Value:
        y = self.scaled(g, y, self.scale_of("residual_scale"), f"{name}_scaled")
        return super().residual(g, x, y, name)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.scaled(g, super().head(g, x), 1 / self.scale_of("logit_scale"),
                           "logits_scaled")

    def scale_of(self, key: str) -> float:
        """The scale at ``key``, or its default."""
        return self.hparams.float(key, 0.0) or self.default_scale(key)

    def default_scale(self, key: str) -> float:
        """The scale for a file without ``key``."""
        return 1.0
