"""Mamba (Gu and Dao 2023), also FalconMamba (TII 2024)."""

from __future__ import annotations

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.layers import Layers
from unladen.models._parts.mamba import mamba


class Mamba(Decoder):
    """All layers are Mamba; keys about heads are ignored."""

    arch = "mamba"
    rope_style = ""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        Layers.__init__(self, file, hparams)

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        return self.residual(g, x, self.mix(g, self.norm(g, x, self.attn_norm)), "residual")

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        """The output of a layer, which is added to the residual."""
        return mamba(self, g, x)
