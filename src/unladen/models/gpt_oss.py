"""gpt-oss (OpenAI 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class GptOss(Decoder):
    """Every other layer sees a window; attention sinks; experts with biases. Hidden units are
    clamped before the gate; experts' weights are the softmax over the chosen experts."""

    arch = "gpt-oss"
    rope_style = "neox"
    ffn_norm = "post_attention_norm"
    expert_gating = "softmax_chosen"
    expert_normalize = False

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 2)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g)

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        return {"act": "gelu_quick", "limit": 7.0, "up_offset": 1.0}
