"""GroveMoE (inclusionAI 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.experts import mixture


class GroveMoe(Decoder):
    """Each group of experts has one smaller expert. The smaller experts read the output of the
    experts and have the same router."""

    arch = "grovemoe"
    rope_style = "neox"

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        y = mixture(self, g, x)
        beside = mixture(self, g, y, x, suffix="_chexps",
                         fold=self.hparams.int("experts_per_group", minimum=1))
        beside = self.scaled(g, beside, self.hparams.float("expert_group_scale"), "chexps_scaled")
        return g.one("add", y, beside, name="ffn_with_chexps")
