"""Jamba (AI21 2024)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.mamba import mamba


class Jamba(Hybrid):
    """Layers without key/value heads are Mamba; the others are attention without positional
    encoding. Some layers have mixtures of experts."""

    arch = "jamba"
    rope_style = ""
    unbiased = frozenset({"attn_output"})
    expert_normalize = False

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        return mamba(self, g, x)
