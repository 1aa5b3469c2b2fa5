"""HRM-Text (Wang et al. 2025, "Hierarchical reasoning model")."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class HrmText(Decoder):
    """A fast and a slow stack of layers, which run in turn. Every run has caches of its own.

    A slow cycle is ``l_cycles`` runs of the fast stack on the sum of both states, then one run of
    the slow stack. Norms have no weights; attention's output has a gate.
    """

    arch = "hrm_text"
    attn_gate = "sigmoid"
    rope_style = "neox"
    norm_weights = False

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_stack, self.n_slow, self.n_fast = (
            hparams.int(f"hrm.{key}", minimum=1)
            for key in ("layers_per_stack", "h_cycles", "l_cycles"))
        if self.n_layers != self.n_stack * self.n_slow * (self.n_fast + 1):
            raise GGUFError(f"{self.n_layers} layers are not {self.n_slow} cycles of "
                            f"{self.n_fast} + 1 stacks of {self.n_stack}", path=hparams.path,
                            hint="the metadata is damaged: convert or fetch the file again")

    def n_stored(self) -> int:
        return 2 * self.hparams.int("hrm.layers_per_stack", minimum=1)

    def name(self, g: GraphBuilder, part: str) -> str:
        if g.layer < 0:
            return part
        is_slow = g.layer // self.n_stack % (self.n_fast + 1) == self.n_fast
        return f"blk.{g.layer % self.n_stack + is_slow * self.n_stack}.{part}"

    def embed(self, g: GraphBuilder) -> Value:
        scale = self.hparams.float("embedding_scale", 0.0) or 1.0
        return self.scaled(g, super().embed(g), scale, "embd_scaled")

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        start = self.tensors.weight("hrm.z_l_init", self.n_embd)
        total = g.one("add", x, name="z_l_init", weights={"b": start})
        g.layer, slow = 0, x
        for cycle in range(self.n_slow):
            for _ in range(self.n_fast):
                fast = self.stack(g, total, tables)
                total = g.one("add", slow, fast, name="sum")
            slow = self.stack(g, total, tables)
            if cycle + 1 < self.n_slow:
                total = g.one("add", slow, fast, name="sum")
        return slow

    def stack(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        """x after one run of a stack that begins at layer ``g.layer``; ``g.layer`` moves behind it.
        """
        for layer in range(g.layer, g.layer + self.n_stack):
            g.layer = layer
            x = self.block(g, x, tables[layer])
        x = self.plain_norm(g, x, "stack_norm")
        g.layer += 1
        return x

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"logits": self.head(g, x)}
