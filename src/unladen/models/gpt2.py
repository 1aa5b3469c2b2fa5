"""GPT-2 (Radford et al. 2019)."""

from __future__ import annotations

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value, Weight
from unladen.models._parts.decoder import Decoder


class Gpt2(Decoder):
    """Learned positions, layer norms, one matrix for queries, keys and values, plain GELU."""

    arch = "gpt2"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_positions = self.tensors.shape("position_embd.weight")[0]
        self.context_length = min(self.context_length, self.n_positions)
        h = self.heads
        if {h.n_heads * h.k_dim, h.n_kv_heads * h.k_dim, h.n_kv_heads * h.v_dim} != {self.n_embd}:
            raise GGUFError(f"{h} don't make up embeddings of {self.n_embd}", path=hparams.path,
                            hint="the metadata is damaged: convert or fetch the file again")

    def read_eps(self) -> float:
        return self.hparams.float("attention.layer_norm_epsilon")

    def embed(self, g: GraphBuilder) -> Value:
        table = self.tensors.weight("position_embd.weight", self.n_positions, self.n_embd)
        where = g.one("embed", g.inputs["positions"], name="position_embd", weights={"w": table})
        return g.one("add", super().embed(g), where, name="embd")

    def positions(self, g: GraphBuilder) -> None:
        return None

    def norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        weights = {role: self.tensors.weight(f"{self.name(g, part)}.{suffix}", self.n_embd)
                   for role, suffix in (("w", "weight"), ("b", "bias"))}
        return g.one("layer_norm", x, name=part, weights=weights, attrs={"eps": self.eps})

    def qkv(self, g: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
        n = self.n_embd
        w = self.tensors.weight(self.name(g, "attn_qkv.weight"), 3 * n, n)
        b = self.tensors.weight(self.name(g, "attn_qkv.bias"), 3 * n)
        weights: dict[str, Weight] = {}
        for i in range(3):
            weights |= {f"w{i}": w.rows(i * n, n), f"b{i}": b.rows(i * n, n)}
        q, k, v = g.add("linear", (x,), name="attn_qkv", weights=weights)
        return q, k, v

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        n_ff = self.hparams.int("feed_forward_length", minimum=1)
        (up,) = self.linear(g, x, {"ffn_up": n_ff}, "ffn_up")
        y = g.one("activation", up, name="ffn_act", attrs={"act": "gelu"})
        return self.linear(g, y, {"ffn_down": self.n_embd}, "ffn_out")[0]
