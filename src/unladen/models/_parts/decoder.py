"""The decoder that most architectures vary: norm, attention, norm, feed-forward, both residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import AFTER_LAYERS, GraphBuilder
from unladen.graph.graph import Attr, Graph, KVSpec, Value, Weight
from unladen.models._parts.base import Architecture
from unladen.models._parts.experts import mixture, shared
from unladen.models._parts.rope import rope_attrs


@dataclass(frozen=True, slots=True)
class Heads:
    """Geometry of attention: query heads, key/value heads, their sizes, rotated dimensions."""

    n_heads: int
    n_kv_heads: int
    k_dim: int
    v_dim: int
    n_rot: int

    @classmethod
    def read(cls, hp: HParams, n_embd: int) -> Heads:
        """From the ``attention.*`` and ``rope.*`` keys; raises :class:`GGUFError`."""
        n_heads = hp.int("attention.head_count", minimum=1)
        n_kv_heads = hp.int("attention.head_count_kv", n_heads, minimum=1)
        k_dim = hp.int("attention.key_length", n_embd // n_heads, minimum=1)
        n_rot = hp.int("rope.dimension_count", k_dim)
        heads = cls(n_heads, n_kv_heads, k_dim,
                    hp.int("attention.value_length", k_dim, minimum=1), n_rot)
        if n_heads % n_kv_heads or k_dim < 1 or n_rot > k_dim or n_rot % 2:
            raise GGUFError(f"attention of {heads} makes no sense", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        return heads


class Decoder(Architecture):
    """A decoder-only transformer with RMS norms, rotary positions and a gated feed-forward.

    A weight's ``.bias``, and norms of queries and keys, are applied where the file has them.
    Subclasses set the class attributes, or override a part.
    """

    rope_style: ClassVar[str] = "norm"
    act: ClassVar[str] = "silu"
    expert_gating: ClassVar[str] = "softmax"
    expert_normalize: ClassVar[bool] = True
    gated: ClassVar[bool] = True
    """Whether experts must have gates."""
    weigh_input: ClassVar[bool] = False
    """Whether experts' weights are applied to what they get."""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.heads = Heads.read(hparams, self.n_embd)
        self.eps = self.read_eps()

    def read_eps(self) -> float:
        """Epsilon of the norms."""
        return self.hparams.float("attention.layer_norm_rms_epsilon")

    def build(self) -> Graph:
        """See :meth:`Architecture.build`."""
        g = GraphBuilder()
        g.n_layers = self.n_layers
        x = self.embed(g)
        table = self.positions(g)
        for layer in range(self.n_layers):
            g.layer = layer
            x = g.one("add", x, self.attention(g, self.norm(g, x, "attn_norm"), table),
                      name="attn_residual")
            x = g.one("add", x, self.feed_forward(g, self.norm(g, x, "ffn_norm")),
                      name="ffn_residual")
        g.layer = AFTER_LAYERS
        x = g.one("select_rows", x, g.inputs["out_rows"], name="last_rows")
        logits = self.head(g, self.norm(g, x, "output_norm"))
        self.tensors.report_unused()
        return g.finish(logits=logits)

    def embed(self, g: GraphBuilder) -> Value:
        """Token embeddings f32 [T, n_embd]."""
        table = self.tensors.weight("token_embd.weight", self.n_vocab, self.n_embd)
        return g.one("embed", g.inputs["tokens"], name="token_embd", weights={"w": table})

    def positions(self, g: GraphBuilder) -> Value | None:
        """The table of rotations, or None for architectures that rotate nothing."""
        attrs: dict[str, Attr] = dict(rope_attrs(self.hparams, self.tensors, self.heads.n_rot))
        return g.one("rope_table", g.inputs["positions"], name="rope_table", attrs=attrs)

    def name(self, g: GraphBuilder, part: str) -> str:
        """GGUF's name of ``part`` in the layer being built."""
        return f"blk.{g.layer}.{part}" if g.layer >= 0 else part

    def norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        """RMS norm of x f32 [T, n_embd]."""
        w = self.tensors.weight(self.name(g, part) + ".weight", self.n_embd)
        return g.one("rms_norm", x, name=part, weights={"w": w}, attrs={"eps": self.eps})

    def linear(self, g: GraphBuilder, x: Value, parts: dict[str, int], name: str
               ) -> tuple[Value, ...]:
        """One product for each of ``parts`` (name: rows), with biases where the file has them."""
        n_in = x.shape[-1]
        assert isinstance(n_in, int)
        weights: dict[str, Weight] = {}
        for i, (part, n_out) in enumerate(parts.items()):
            full = self.name(g, part)
            weights[f"w{i}"] = self.tensors.weight(full + ".weight", n_out, n_in)
            bias = self.tensors.optional(full + ".bias", n_out)
            if bias is not None:
                weights[f"b{i}"] = bias
        return g.add("linear", (x,), name=name, weights=weights)

    def qkv(self, g: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
        """Queries, keys and values, before they are rotated."""
        h = self.heads
        rows = {"attn_q": h.n_heads * h.k_dim, "attn_k": h.n_kv_heads * h.k_dim,
                "attn_v": h.n_kv_heads * h.v_dim}
        q, k, v = self.linear(g, x, rows, "attn_qkv")
        return self.head_norm(g, q, "attn_q_norm"), self.head_norm(g, k, "attn_k_norm"), v

    def head_norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        """RMS norm of every head by itself, where the file has a weight for it."""
        w = self.tensors.optional(self.name(g, part) + ".weight", self.heads.k_dim)
        if w is None:
            return x
        return g.one("rms_norm", x, name=part, weights={"w": w}, attrs={"eps": self.eps})

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """Attention of x f32 [T, n_embd] over the layer's cache, projected back."""
        h = self.heads
        q, k, v = self.qkv(g, x)
        if table is not None:
            attrs: dict[str, Attr] = {"head_dim": h.k_dim, "style": self.rope_style}
            q = g.one("rope", q, table, name="rope_q", attrs=attrs)
            k = g.one("rope", k, table, name="rope_k", attrs=attrs)
        state = KVSpec(g.layer, h.n_kv_heads, h.k_dim, h.v_dim)
        g.add("kv_write", (k, v), name="kv_write", state=state)
        scale = self.hparams.float("attention.scale", 0.0) or h.k_dim ** -0.5
        y = g.one("attention", q, name="attn", state=state,
                  attrs={"n_heads": h.n_heads, "scale": scale})
        return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        """The dense or the expert network, as the layer's tensors have it."""
        if self.name(g, "ffn_gate_inp.weight") in self.tensors:
            return self.experts(g, x)
        n_ff = self.hparams.per_layer("feed_forward_length", self.n_layers, minimum=1)[g.layer]
        return self.dense(g, x, n_ff)

    def dense(self, g: GraphBuilder, x: Value, n_ff: int, suffix: str = "") -> Value:
        """A network of ``n_ff`` hidden units; ``suffix`` of its tensors' names: _shexp, ..."""
        parts = [f"ffn_{part}{suffix}" for part in ("gate", "up", "down")]
        gate, up = self.linear(g, x, dict.fromkeys(parts[:2], n_ff), f"ffn_gate_up{suffix}")
        y = g.one("glu", gate, up, name=f"ffn_glu{suffix}", attrs=self.unit_attrs(g))
        return self.linear(g, y, {parts[2]: self.n_embd}, f"ffn_out{suffix}")[0]

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        """Attributes of the gated units of the layer being built."""
        return {"act": self.act}

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        """A mixture of experts, and those that all tokens share."""
        y, beside = mixture(self, g, x), shared(self, g, x)
        return y if beside is None else g.one("add", y, beside, name="ffn_with_shexp")

    def expert_size(self, g: GraphBuilder) -> int:
        """Hidden units of each expert in the layer being built."""
        hp = self.hparams
        sizes = hp.per_layer("expert_feed_forward_length", self.n_layers, 0)
        return sizes[g.layer] or hp.int("feed_forward_length", minimum=1)

    def head(self, g: GraphBuilder, x: Value) -> Value:
        """Logits f32 [S, n_vocab]; the token embeddings serve where the file has no own head."""
        part = "output" if "output.weight" in self.tensors else "token_embd"
        return self.linear(g, x, {part: self.n_vocab}, "logits")[0]
