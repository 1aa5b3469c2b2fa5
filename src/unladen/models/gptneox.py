"""GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class GptNeoX(Decoder):
    """Layer norms; plain GELU; attention and feed-forward side by side if the file says so."""

    arch = "gptneox"
    norm_op = "layer_norm"
    rope_style = "neox"
    act = "gelu"
    gated = False

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        if self.hparams.bool("use_parallel_residual", True):
            return self.parallel_block(g, x, table)
        return super().block(g, x, table)
