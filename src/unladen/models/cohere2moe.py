"""Command A with experts (Cohere 2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.experts import DAMAGED
from unladen.models._parts.heads import sliding_layers
from unladen.models.command_r import CommandR


class Cohere2Moe(CommandR):
    """One layer of four sees everything, the others a window. Only the layers with a window and the
    dense first layers have rotary embedding. Experts and shared experts count half each."""

    arch = "cohere2moe"
    expert_gating = "sigmoid"
    expert_normalize = False

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        if hparams.float("attention.layer_norm_rms_epsilon", 0.0):
            self.norm_op = "rms_norm"
        super().__init__(file, hparams)

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 4, dense_first=True)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        table, n_dense = self.rope_table(g), self.hparams.int("leading_dense_block_count")
        for layer in range(self.n_layers):
            router = f"blk.{layer}.ffn_gate_inp.weight"
            if (router in self.tensors) == (layer < n_dense):
                raise GGUFError(f"{self.arch}.leading_dense_block_count is {n_dense}, but there is "
                                f"{'a' if layer < n_dense else 'no'} {router}",
                                path=self.hparams.path, hint=DAMAGED)
        return [table if slides or layer < n_dense else None
                for layer, slides in enumerate(self.sliding)]

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        y = super().experts(g, x)
        return self.scaled(g, y, 0.5, "ffn_halved") if self.has(g, "ffn_up_shexp") else y
