"""Phi 3.5 with experts (Abdin et al. 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.layers import n_columns
from unladen.models.phi3 import Phi3


class PhiMoe(Phi3):
    """Phi 3 whose norms have biases and whose feed-forward is a mixture."""

    arch = "phimoe"

    def norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        y = super().norm(g, x, part)
        bias = self.tensors.optional(self.name(g, part) + ".bias", n_columns(x))
        if bias is None:
            return y
        return g.one("add", y, name=f"{part}_biased", weights={"b": bias})
