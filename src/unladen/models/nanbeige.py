"""Nanbeige 4 (2025)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.blocks import MAX_LAYERS
from unladen.models._parts.decoder import Decoder


class Nanbeige(Decoder):
    """Built like llama; all layers may run several times, with the last norm after each pass. Every
    pass has caches of its own."""

    arch = "nanbeige"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_own = self.n_layers
        n_loops = hparams.int("num_loops", 1, minimum=1)
        self.n_layers = self.n_own * n_loops
        if self.n_layers > MAX_LAYERS:
            raise GGUFError(f"the model can't run {self.n_own} layers {n_loops} times",
                            path=hparams.path, hint="the metadata is damaged")
        self.heads = self.heads * n_loops
        self.sliding = [False] * self.n_layers

    def name(self, g: GraphBuilder, part: str) -> str:
        return f"blk.{g.layer % self.n_own}.{part}" if g.layer >= 0 else part

    def n_ff(self, layer: int) -> int:
        return self.hparams.per_layer("feed_forward_length", self.n_own, minimum=1)[
            layer % self.n_own]

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        is_normed = not self.hparams.bool("skip_loop_final_norm", False)
        for layer in range(self.n_layers):
            g.layer = layer
            x = self.block(g, x, tables[layer])
            if is_normed and (layer + 1) % self.n_own == 0 and layer + 1 < self.n_layers:
                weight = self.tensors.weight("output_norm.weight", self.n_embd)
                x = g.one("rms_norm", x, name="loop_norm", weights={"w": weight},
                          attrs={"eps": self.eps})
        return x
