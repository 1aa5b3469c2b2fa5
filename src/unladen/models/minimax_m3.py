"""MiniMax M3 (2026)."""

from __future__ import annotations

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr
from unladen.models._parts.decoder import Decoder


class MiniMaxM3(Decoder):
    """Rotary embedding of a part of each head; hidden units are clamped before the gate; experts
    are chosen by sigmoid and bias; there is a shared expert.

    Later layers attend to the best ``attention.indexer.top_k`` blocks of keys. The context is
    limited to as many blocks. All are selected then, so the selection needs no computation.
    """

    arch = "minimax-m3"
    rope_style = "neox"
    unbiased = frozenset({"attn_output"})
    expert_gating = "sigmoid"
    expert_normalize = False

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        n_keys = (hparams.int("attention.indexer.top_k", minimum=1)
                  * hparams.int("attention.indexer.block_size", minimum=1))
        self.context_length = min(self.context_length, n_keys)

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        return {"act": "gelu_quick", "limit": 7.0, "up_offset": 1.0}
