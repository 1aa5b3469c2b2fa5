"""LFM 2 (Liquid AI 2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.mamba import convolved


class Lfm2(Hybrid):
    """Layers without key/value heads are short convolutions between two gates."""

    arch = "lfm2"
    rope_style = "neox"

    def read_sliding(self) -> Sequence[bool]:
        return [self.hparams.int("attention.sliding_window", 0) > 0] * self.n_layers

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        n = self.n_embd
        b, c, x = self.stacked(g, x, "shortconv.in_proj", [n, n, n], "shortconv_in")
        x = g.one("glu", b, x, name="shortconv_gated", attrs={"act": "identity"})
        n_taps = self.hparams.int("shortconv.l_cache", minimum=2)
        (x,) = convolved(self, g, "shortconv.conv", n_taps, [x], "identity")
        y = g.one("glu", c, x, name="shortconv_gated_out", attrs={"act": "identity"})
        return self.linear(g, y, {"shortconv.out_proj": n}, "shortconv_out")[0]

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"logits": self.head(g, self.norm(g, x, "token_embd_norm"))}
