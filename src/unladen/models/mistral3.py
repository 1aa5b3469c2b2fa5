"""Mistral 3 (2025), text part."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Mistral3(Decoder):
    """Built like llama; some models scale up the scores of tokens beyond their first trained
    context length."""

    arch = "mistral3"

    def rotate(self, g: GraphBuilder, q: Value, k: Value, table: Value | None
               ) -> tuple[Value, Value]:
        q, k = super().rotate(g, q, k, table)
        scale = self.hparams.float("attention.temperature_scale", 0.0)
        if scale == 0:
            return q, k
        length = self.hparams.int("rope.scaling.original_context_length",
                                  self.hparams.int("context_length"), minimum=1)
        factor = g.one("position_scale", g.inputs["positions"], name="temperature",
                       attrs={"scale": scale, "length": length, "offset": 0})
        return g.one("glu", factor, q, name="q_tempered", attrs={"act": "identity"}), k
