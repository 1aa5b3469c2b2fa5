"""Builds attention: queries, keys and values, rotated, over the layer's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, KVSpec, Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.heads import Heads
from unladen.models._parts.layers import Layers, n_columns
from unladen.models._parts.rope import rope_attrs, rope_base


class Attention(Layers):
    """Attention of a layer. Norms of queries and keys, and attention sinks, are applied where the
    file has them.

    ``rope_style``: ``"norm"`` (pairs of neighbours), ``"neox"`` (pairs half a head apart), or
    ``""`` (no rotation). ``norm_after_rope``: queries and keys are normalized after they are
    rotated, not before. ``fewest_heads`` 0: layers may have no heads.
    """

    rope_style: str = "norm"
    norm_after_rope: ClassVar[bool] = False
    attn_gate: ClassVar[str] = ""
    fewest_heads: ClassVar[int] = 1

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.sliding = self.read_sliding()
        self.heads = Heads.read(hparams, self.n_embd, self.sliding, self.fewest_heads)

    def read_sliding(self) -> Sequence[bool]:
        """For each layer, whether it sees only a window; see
        :func:`~unladen.models._parts.heads.sliding_layers`."""
        return [False] * self.n_layers

    def rope_table(self, g: GraphBuilder, name: str = "rope_table", *, layer: int = 0,
                   base: float | None = None, scaled: bool = True) -> Value:
        """The table of rotations for ``layer`` and similar layers; see
        :func:`~unladen.models._parts.rope.rope_attrs`."""
        attrs: dict[str, Attr] = dict(rope_attrs(
            self.hparams, self.tensors, self.heads[layer].n_rot, base=base, scaled=scaled,
            factors=self.rope_factors(layer)))
        return g.one("rope_table", g.inputs["positions"], name=name, attrs=attrs)

    def rope_factors(self, layer: int) -> str:
        """The name of the tensor whose numbers divide the frequencies of ``layer``, if the file has
        it. A file has one for all contexts, or one for contexts up to the trained length and one
        for longer ones."""
        if "rope_factors_long.weight" not in self.tensors:
            return "rope_freqs.weight"
        original = self.hparams.int("rope.scaling.original_context_length",
                                    self.hparams.int("context_length"))
        return f"rope_factors_{'long' if self.context > original else 'short'}.weight"

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        """For each layer its table of rotations, or None where nothing is rotated."""
        if not self.rope_style:
            return [None] * self.n_layers
        return [self.rope_table(g)] * self.n_layers

    def local_positions(self, g: GraphBuilder, default: float | None = None, *,
                        scaled: bool = True) -> Sequence[Value | None]:
        """:meth:`positions` where sliding layers have a table of their own. Its base is
        ``rope.freq_base_swa``, else ``default``, else the base of the other layers."""
        tables = {slides: self._table_of(g, slides, default, scaled)
                  for slides in sorted(set(self.sliding))}
        return [tables[slides] for slides in self.sliding]

    def _table_of(self, g: GraphBuilder, slides: bool, default: float | None, scaled: bool
                  ) -> Value:
        layer = list(self.sliding).index(slides)
        if not slides:
            return self.rope_table(g, layer=layer)
        base = rope_base(self.hparams, "rope.freq_base_swa", default)
        return self.rope_table(g, "rope_table_swa", layer=layer, base=base, scaled=scaled)

    def scoring(self, layer: int) -> Scoring:
        """How ``layer`` computes the scores of keys."""
        scale = self.hparams.float("attention.scale", 0.0) or self.heads[layer].k_dim ** -0.5
        return Scoring(scale, window=self.window() if self.sliding[layer] else 0)

    def window(self) -> int:
        """Tokens that a sliding layer sees."""
        return self.hparams.int("attention.sliding_window", minimum=1)

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """Attention of x f32 [T, n_embd] over the layer's cache, projected back."""
        q, k, v = self.qkv(g, x)
        if self.norm_after_rope:
            q, k = self.head_norms(g, *self.rotate(g, q, k, table))
        else:
            q, k = self.rotate(g, *self.head_norms(g, q, k), table)
        y = self.attend(g, q, k, v)
        if self.attn_gate:
            y = self.gate(g, x, y)
        return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]

    def gate(self, g: GraphBuilder, x: Value, y: Value) -> Value:
        """y, attention's output, times a gate computed from x: one for each head or for each
        number."""
        *rows, _ = self.tensors.shape(self.name(g, "attn_gate.weight"))
        n = rows[0] if rows else 1
        if n not in (self.heads[g.layer].n_heads, n_columns(y)):
            raise GGUFError(f"{self.name(g, 'attn_gate.weight')} has {n} rows",
                            path=self.hparams.path,
                            hint="metadata and tensors disagree: convert or fetch the file again")
        (gate,) = self.linear(g, x, {"attn_gate": n}, "attn_gate")
        return g.one("glu", gate, y, name="attn_gated", attrs={"act": self.attn_gate})

    def qkv(self, g: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
        """Queries, keys and values, from three matrices or from one that stacks them."""
        h = self.heads[g.layer]
        rows = {"attn_q": h.n_heads * h.k_dim, "attn_k": h.n_kv_heads * h.k_dim,
                "attn_v": h.n_kv_heads * h.v_dim}
        if self.has(g, "attn_qkv"):
            q, k, v = self.stacked(g, x, "attn_qkv", list(rows.values()), "attn_qkv")
        else:
            q, k, v = self.linear(g, x, rows, "attn_qkv")
        return self.clamped(g, q, "q"), self.clamped(g, k, "k"), self.clamped(g, v, "v")

    def clamped(self, g: GraphBuilder, x: Value, name: str) -> Value:
        """x clamped to ``attention.clamp_kqv`` on both sides of 0, where the file has that key."""
        limit = self.hparams.float("attention.clamp_kqv", 0.0)
        if limit <= 0:
            return x
        return g.one("clamp", x, name=f"{name}_clamped", attrs={"limit": limit})

    def head_norms(self, g: GraphBuilder, q: Value, k: Value) -> tuple[Value, Value]:
        """Queries and keys normalized."""
        return self.head_norm(g, q, "attn_q_norm"), self.head_norm(g, k, "attn_k_norm")

    def head_norm(self, g: GraphBuilder, x: Value, part: str) -> Value:
        """x normalized, where the file has weights for it. The weights' shape decides whether every
        head is normalized, with shared or own weights, or the whole row."""
        full = self.name(g, part)
        if full + ".weight" not in self.tensors:
            return x
        n, dim = n_columns(x), self.heads[g.layer].k_dim
        shape = self.tensors.shape(full + ".weight")
        known = shape if shape in ((n,), (n // dim, dim)) else (dim,)
        weights = {"w": self.tensors.weight(full + ".weight", *known)}
        bias = self.tensors.optional(full + ".bias", *known)
        if bias is not None:
            weights["b"] = bias
        return g.one(self.norm_op, x, name=part, weights=weights,
                     attrs={"eps": self.eps, "group": known[-1]})

    def rotate(self, g: GraphBuilder, q: Value, k: Value, table: Value | None
               ) -> tuple[Value, Value]:
        """Queries and keys rotated by their positions."""
        if table is None:
            return q, k
        attrs: dict[str, Attr] = {"head_dim": self.heads[g.layer].k_dim, "style": self.rope_style}
        return (g.one("rope", q, table, name="rope_q", attrs=attrs),
                g.one("rope", k, table, name="rope_k", attrs=attrs))

    def attend(self, g: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        """Writes keys and values to the layer's cache; returns the attention of the queries over
        it."""
        h = self.heads[g.layer]
        state = KVSpec(g.layer, h.n_kv_heads, h.k_dim, h.v_dim)
        g.add("kv_write", (k, v), name="kv_write", state=state)
        return self.read(g, q, state)

    def read(self, g: GraphBuilder, q: Value, state: KVSpec) -> Value:
        """The attention of the queries over the cache ``state``."""
        n_heads = self.heads[g.layer].n_heads
        sinks = self.tensors.optional(self.name(g, "attn_sinks.weight"), n_heads)
        attrs = {"n_heads": n_heads, **self.scoring(g.layer).attrs()}
        return g.one("attention", q, name="attn", state=state, attrs=attrs,
                     weights={} if sinks is None else {"sinks": sinks})
