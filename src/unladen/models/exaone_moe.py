"""K-EXAONE (LG AI Research 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.heads import sliding_layers


class ExaoneMoe(Decoder):
    """Most layers see a window; the others have no positional encoding. Experts are chosen by
    sigmoid and bias; there are shared experts."""

    arch = "exaone-moe"
    rope_style = "neox"
    unbiased = frozenset({"attn_output"})
    expert_gating = "sigmoid"
    expert_normalize = False

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 4)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        table = self.rope_table(g)
        return [table if slides else None for slides in self.sliding]
