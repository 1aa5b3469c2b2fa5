"""Maple (2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.experts import limit_attrs


class Maple(Decoder):
    """Queries and keys are normalized per head; layers that see everything have no positional
    encoding; experts' hidden units are clamped."""

    arch = "maple"
    rope_style = "neox"

    def read_sliding(self) -> Sequence[bool]:
        return self.hparams.per_layer_bool("attention.sliding_window_pattern", self.n_layers)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return [table if slides else None
                for table, slides in zip(self.local_positions(g), self.sliding, strict=True)]

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        limits = self.hparams.per_layer_float("swiglu_clamp_exp", self.n_layers)
        return {**super().unit_attrs(g), **limit_attrs(self.hparams, limits[g.layer])}
