"""Gemma 4, text part (Gemma team 2026)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import KVSpec, Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.experts import mixture
from unladen.models._parts.heads import sliding_layers
from unladen.models.gemma import Gemma


class Gemma4(Gemma):
    """Heads of two sizes; the last layers read the caches of earlier layers; each token has an
    embedding for every layer; some models have experts in parallel to the dense network."""

    arch = "gemma4"
    attn_post_norm = "post_attention_norm"
    ffn_norm = ""
    ffn_post_norm = "post_ffw_norm"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_own_caches = self.n_layers - hparams.int("attention.shared_kv_layers", 0)
        self.n_per_layer = hparams.int("embedding_length_per_layer_input", 0)
        if not self.n_per_layer:
            self.tensors.refuse("per_layer_token_embd.weight",
                                f"{self.arch}.embedding_length_per_layer_input")
        kinds = set(self.sliding[:max(self.n_own_caches, 0)])
        if not set(self.sliding[self.n_own_caches:]) <= kinds:
            raise GGUFError(f"{self.n_own_caches} of {self.n_layers} layers have caches, but none "
                            "that the other layers can share", path=hparams.path,
                            hint="the metadata is damaged: convert or fetch the file again")

    def read_sliding(self) -> Sequence[bool]:
        return sliding_layers(self.hparams, self.n_layers, 6)

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        return self.local_positions(g, 10000.0, scaled=False)

    def rope_factors(self, layer: int) -> str:
        return "" if self.sliding[layer] else super().rope_factors(layer)

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), scale=1.0)

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        h, layer = self.heads[g.layer], g.layer
        rows = {"attn_q": h.n_heads * h.k_dim}
        if layer >= self.n_own_caches:
            (q,) = self.linear(g, x, rows, "attn_q")
            y = self.read(g, self.turned(g, q, "q", table), self.shared_cache(layer))
            return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]
        rows["attn_k"] = h.n_kv_heads * h.k_dim
        if self.has(g, "attn_v"):
            rows["attn_v"] = h.n_kv_heads * h.v_dim
        q, *kv = self.linear(g, x, rows, "attn_qkv")
        v = self.plain_norm(g, kv[-1], "attn_v_norm", h.v_dim)
        y = self.attend(g, self.turned(g, q, "q", table), self.turned(g, kv[0], "k", table), v)
        return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]

    def turned(self, g: GraphBuilder, x: Value, name: str, table: Value | None) -> Value:
        """Queries or keys, normalized and rotated."""
        assert table is not None
        x = self.head_norm(g, x, f"attn_{name}_norm")
        return g.one("rope", x, table, name=f"rope_{name}",
                     attrs={"head_dim": self.heads[g.layer].k_dim, "style": self.rope_style})

    def shared_cache(self, layer: int) -> KVSpec:
        """The cache of the last layer of the same kind that has one."""
        owner = max(i for i in range(self.n_own_caches) if self.sliding[i] == self.sliding[layer])
        h = self.heads[owner]
        return KVSpec(owner, h.n_kv_heads, h.k_dim, h.v_dim)

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        """The output of the layer's networks. ``x`` is the residual without a norm: the dense
        network and the experts have norms of their own."""
        y = self.dense(g, self.norm(g, x, "ffn_norm"), self.n_ff(g.layer))
        if not self.has(g, "ffn_gate_inp"):
            return y
        y = self.norm(g, y, "post_ffw_norm_1")
        factors = self.tensors.weight(self.name(g, "ffn_gate_inp.scale"), self.n_embd)
        seen = g.one("scale", self.plain_norm(g, x, "router_norm"), name="router_input",
                     weights={"w": factors}, attrs={"s": 1 / math.sqrt(self.n_embd)})
        z = mixture(self, g, self.norm(g, x, "pre_ffw_norm_2"), seen)
        return g.one("add", y, self.norm(g, z, "post_ffw_norm_2"), name="ffn_with_experts")

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        beside = self.per_layer_inputs(g, x) if self.n_per_layer else None
        for layer in range(self.n_layers):
            g.layer = layer
            x = self.block(g, x, tables[layer])
            if beside is not None:
                x = self.with_input(g, x, beside)
            scale = self.tensors.optional(self.name(g, "layer_output_scale.weight"), 1)
            if scale is not None:
                x = g.one("scale", x, name="layer_scaled", weights={"w": scale}, attrs={"s": 1.0})
        return x

    def per_layer_inputs(self, g: GraphBuilder, x: Value) -> Value:
        """Additional inputs of the layers, f32 [T, n_layers * n_per_layer]: the token's embedding
        for each layer, plus a projection of its usual embedding."""
        n = self.n_layers * self.n_per_layer
        table = self.tensors.weight("per_layer_token_embd.weight", self.n_vocab, n)
        own = g.one("embed", g.inputs["tokens"], name="per_layer_token_embd", weights={"w": table})
        own = self.scaled(g, own, math.sqrt(self.n_per_layer), "per_layer_embd_scaled")
        (y,) = self.linear(g, x, {"per_layer_model_proj": n}, "per_layer_proj")
        y = self.scaled(g, y, 1 / math.sqrt(self.n_embd), "per_layer_proj_scaled")
        w = self.tensors.weight("per_layer_proj_norm.weight", self.n_per_layer)
        y = g.one("rms_norm", y, name="per_layer_proj_norm", weights={"w": w},
                  attrs={"eps": self.eps})
        return self.scaled(g, g.one("add", y, own, name="per_layer_sum"), 1 / math.sqrt(2),
                           "per_layer_inputs")

    def with_input(self, g: GraphBuilder, x: Value, beside: Value) -> Value:
        """The residual x plus the layer's additional input, gated by x."""
        (gate,) = self.linear(g, x, {"inp_gate": self.n_per_layer}, "inp_gate")
        own = g.one("columns", beside, name="inp",
                    attrs={"first": g.layer * self.n_per_layer, "count": self.n_per_layer})
        y = g.one("glu", gate, own, name="inp_gated", attrs={"act": self.act})
        (y,) = self.linear(g, y, {"proj": self.n_embd}, "inp_out")
        return g.one("add", x, self.norm(g, y, "post_norm"), name="inp_residual")

    def head(self, g: GraphBuilder, x: Value) -> Value:
        return self.capped(g, super().head(g, x))
