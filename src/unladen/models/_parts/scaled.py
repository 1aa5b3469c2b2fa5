"""Decoders whose files scale what flows through them (muP, Yang et al. 2022)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class ScaledDecoder(Decoder):
    """``embedding_scale`` and ``residual_scale`` multiply, ``logit_scale`` divides; 0 or no key
    stands for :meth:`default_scale`."""

    def embed(self, g: GraphBuilder) -> Value:
        return self.scaled(g, super().embed(g), self.scale_of("embedding_scale"), "embd_scaled")

    def residual(self, g: GraphBuilder, x: Value, y: Value, name: str) -> Value:
        y = self.scaled(g, y, self.scale_of("residual_scale"), f"{name}_scaled")
        return super().residual(g, x, y, name)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.scaled(g, super().head(g, x), 1 / self.scale_of("logit_scale"),
                           "logits_scaled")

    def scale_of(self, key: str) -> float:
        """The number at ``key``."""
        return self.hparams.float(key, 0.0) or self.default_scale(key)

    def default_scale(self, key: str) -> float:
        """The scale where the file says nothing."""
        return 1.0
