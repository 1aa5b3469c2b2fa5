"""Latent attention: one short row per token instead of keys and values (DeepSeek V2, 2024)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.layers import columns
from unladen.models._parts.rope import rope_attrs


class LatentDecoder(Decoder):
    """A decoder with latent attention. The first layers are dense, later ones are mixtures with
    shared experts.

    The cache holds one row per token: its latent, and one rotated key for all heads. The matrix
    that would make keys from the latent is applied to the queries instead, and the matrix that
    would make values to the result of attention. So every head reads the same rows of
    ``rank + n_rot`` columns, and their first ``rank`` columns are the values. Older files, without
    ``attention.key_length_mla``, have both matrices in one, ``attn_kv_b``; for these, keys and
    values are computed as in other models.
    """

    expert_normalize = False
    magnitudes_are_equal: ClassVar[bool] = False
    """Whether the published ``mscale`` equals ``mscale_all_dim``."""
    yarn_in_scores: ClassVar[bool] = True
    """Whether YaRN's magnitude scales whole scores, as in DeepSeek's models, and not only the
    rotated dimensions."""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        hp = hparams
        self.rank = hp.int("attention.kv_lora_rank", minimum=1)
        self.query_rank = hp.int("attention.q_lora_rank", 0)
        self.is_absorbed = "attention.key_length_mla" in hp
        suffix = "_mla" if self.is_absorbed else ""
        self.key_dim = hp.int(f"attention.key_length{suffix}", minimum=1)
        self.value_dim = hp.int(f"attention.value_length{suffix}", minimum=1)
        for h in (h for h in self.heads if h.n_kv_heads):
            known = (1, self.rank + h.n_rot, self.rank) if self.is_absorbed else (
                h.n_heads, self.key_dim, self.value_dim)
            if (h.n_kv_heads, h.k_dim, h.v_dim) != known or (
                    self.key_dim < h.n_rot + self.is_absorbed):
                raise GGUFError(f"latent attention of rank {self.rank} can't have {h}",
                                path=hp.path,
                                hint="the metadata is damaged: convert or fetch the file again")

    def scoring(self, layer: int) -> Scoring:
        if not self.yarn_in_scores:
            return replace(super().scoring(layer), scale=self.key_dim ** -0.5)
        key_log = self.hparams.float("rope.scaling.yarn_log_multiplier", 0.0) * self.log_factor
        stretch = self.rope_magnitude() * (1 + key_log)
        return replace(super().scoring(layer), scale=stretch ** 2 * self.key_dim ** -0.5)

    @property
    def log_factor(self) -> float:
        """The logarithm of the factor by which YaRN extends the context."""
        is_yarn = self.hparams.str("rope.scaling.type", "") == "yarn"
        return math.log(max(1.0, self.hparams.float("rope.scaling.factor", 1.0))) * is_yarn

    def rope_magnitude(self) -> float:
        """The magnitude of the rotated dimensions: YaRN's 1 + 0.1 log(factor), divided by
        1 + 0.1 m log(factor), which scales the scores instead. m is the published
        ``mscale_all_dim``; the files' multiplier is a tenth of it."""
        m = self.hparams.float("rope.scaling.yarn_log_multiplier", 0.0) / 0.1
        own = m if m and self.magnitudes_are_equal else 1.0
        ratio = (1 + 0.1 * own * self.log_factor) / (1 + 0.1 * m * self.log_factor)
        return self.hparams.float("rope.scaling.attn_factor", 1.0) * ratio

    def rope_table(self, g: GraphBuilder, name: str = "rope_table", *, layer: int = 0,
                   base: float | None = None, scaled: bool = True) -> Value:
        if not self.yarn_in_scores:
            return super().rope_table(g, name, layer=layer, base=base, scaled=scaled)
        attrs: dict[str, Attr] = dict(rope_attrs(
            self.hparams, self.tensors, self.heads[layer].n_rot, base=base, scaled=scaled,
            factors=self.rope_factors(layer)))
        return g.one("rope_table", g.inputs["positions"], name=name,
                     attrs={**attrs, "magnitude": self.rope_magnitude()})

    def qkv(self, g: GraphBuilder, x: Value) -> tuple[Value, Value, Value]:
        """Queries of all heads, the row for the cache, and its latent part."""
        h, (latent, turned) = self.heads[g.layer], self._latent(g, x)
        if not self.is_absorbed:
            return self._queries(g, x, h.n_heads), *self._expanded(g, latent, turned)
        k = g.one("concat", latent, turned, name="attn_row")
        return self._queries(g, x, h.n_heads), k, latent

    def _expanded(self, g: GraphBuilder, latent: Value, turned: Value) -> tuple[Value, Value]:
        """Keys and values of all heads, computed from the latent."""
        h = self.heads[g.layer]
        n = h.k_dim - h.n_rot
        (both,) = self.linear(g, latent, {"attn_kv_b": h.n_heads * (n + h.v_dim)}, "attn_kv_b")
        group = n + h.v_dim
        own = [columns(g, both, "attn_k_own", group, 0, n)] if n else []
        k = g.one("concat", *own, turned, name="attn_k",
                  attrs={"n_heads": h.n_heads, "n_shared": 1})
        return k, columns(g, both, "attn_v", group, n, h.v_dim)

    def _queries(self, g: GraphBuilder, x: Value, n_heads: int) -> Value:
        """Each head's query: the part that is compared to the latent, and the rotated part."""
        n = n_heads * self.key_dim
        if not self.query_rank:
            return self.linear(g, x, {"attn_q": n}, "attn_q")[0]
        (x,) = self.linear(g, x, {"attn_q_a": self.query_rank}, "attn_q_a")
        return self.linear(g, self.norm(g, x, "attn_q_a_norm"), {"attn_q_b": n}, "attn_q_b")[0]

    def _latent(self, g: GraphBuilder, x: Value) -> tuple[Value, Value]:
        n_rot = self.heads[g.layer].n_rot
        parts = self.stacked(g, x, "attn_kv_a_mqa", [self.rank, n_rot], "attn_kv_a")
        return self.norm(g, parts[0], "attn_kv_a_norm"), parts[1]

    def rotate(self, g: GraphBuilder, q: Value, k: Value, table: Value | None
               ) -> tuple[Value, Value]:
        h = self.heads[g.layer]
        if table is not None:
            attrs: dict[str, Attr] = {"style": self.rope_style}
            q = g.one("rope", q, table, name="rope_q", attrs={
                **attrs, "head_dim": self.key_dim, "first": self.key_dim - h.n_rot})
            k = g.one("rope", k, table, name="rope_k", attrs={
                **attrs, "head_dim": h.k_dim, "first": h.k_dim - h.n_rot})
        if not self.is_absorbed:
            return q, k
        w = self.tensors.stacked(self.name(g, "attn_k_b.weight"), h.n_heads, self.rank,
                                 self.key_dim - h.n_rot)
        return g.one("head_linear", q, name="attn_q_latent", weights={"w": w}), k

    def attend(self, g: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        y, n_heads = super().attend(g, q, k, v), self.heads[g.layer].n_heads
        if not self.is_absorbed:
            return y
        w = self.tensors.stacked(self.name(g, "attn_v_b.weight"), n_heads, self.value_dim,
                                 self.rank)
        return g.one("head_linear", y, name="attn_values", weights={"w": w})


class IndexedDecoder(LatentDecoder):
    """Latent attention over the ``attention.indexer.top_k`` keys that an indexer selects.

    The context is limited to ``top_k`` tokens. All keys are selected then, so the selection needs
    no computation.
    """

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.context_length = min(self.context_length,
                                  hparams.int("attention.indexer.top_k", minimum=1))
