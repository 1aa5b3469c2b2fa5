"""CogVLM (Wang et al. 2023), text part."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class CogVlm(Decoder):
    """NeoX rotary embedding, always with the usual base of 10000."""

    arch = "cogvlm"
    rope_style = "neox"

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return [self.rope_table(g, base=10000.0, scaled=False)] * self.n_layers

    def rope_factors(self, layer: int) -> str:
        return ""
