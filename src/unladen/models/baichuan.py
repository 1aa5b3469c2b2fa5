"""Baichuan (Yang et al. 2023)."""

from __future__ import annotations

from dataclasses import replace

from unladen.gguf import GGUFFile, HParams
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder

LAYERS_OF_7B, LAYERS_OF_13B = 32, 40


class Baichuan(Decoder):
    """Built like llama. The positional encoding depends on the size: the 7B model has rotary
    embedding, the 13B model ALiBi, others have neither."""

    arch = "baichuan"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.rope_style = "norm" if self.n_layers == LAYERS_OF_7B else ""

    def scoring(self, layer: int) -> Scoring:
        alibi = 8.0 if self.n_layers == LAYERS_OF_13B else 0.0
        return replace(super().scoring(layer), alibi=alibi)
