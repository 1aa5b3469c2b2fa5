"""DeepSeek V4 (2026)."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, KVSpec, Value
from unladen.models._parts.experts import limit_attrs, mixture
from unladen.models._parts.hyper import HyperDecoder
from unladen.models._parts.layers import n_columns
from unladen.models._parts.rope import rope_attrs


class DeepSeek4(HyperDecoder):
    """Several residual streams. One short row per token is the key and the value of all heads.

    Every layer sees a window of these rows. A layer with a compression ratio also sees one
    compressed row for each ``ratio`` tokens of the whole text. Attention's output is rotated back
    by the query's position.

    Where the ratio is 4 an indexer selects ``attention.indexer.top_k`` of the compressed rows. The
    context is limited to as many rows. All are selected then, so the selection needs no
    computation.
    """

    arch = "deepseek4"
    expert_gating = "sqrt_softplus"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.query_rank = hparams.int("attention.q_lora_rank", minimum=1)
        self.n_groups = hparams.int("attention.output_group_count", minimum=1)
        self.out_rank = hparams.int("attention.output_lora_rank", minimum=1)
        self.ratios = self.read_ratios()
        top_k = hparams.int("attention.indexer.top_k", minimum=1)
        if INDEXED in self.ratios:
            self.context_length = min(self.context_length, INDEXED * top_k)
        for h in self.heads:
            if h.n_kv_heads != 1 or h.k_dim != h.v_dim or h.n_heads % self.n_groups:
                raise GGUFError(f"this architecture can't have {h} in {self.n_groups} groups",
                                path=hparams.path,
                                hint="the metadata is damaged: convert or fetch the file again")

    def read_ratios(self) -> Sequence[int]:
        """For each layer the tokens per compressed row; 0: the layer has no such rows."""
        found = [int(n) for n in self.hparams.numbers("attention.compress_ratios").tolist()]
        if len(found) < self.n_layers or not set(found) <= {0, INDEXED, 128}:
            raise GGUFError(f"the compression ratios must be 0, {INDEXED} or 128 for each of "
                            f"{self.n_layers} layers, got {found}",
                            path=self.hparams.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        return found[:self.n_layers]

    def read_sliding(self) -> Sequence[bool]:
        return [True] * self.n_layers

    def positions(self, g: GraphBuilder) -> Sequence[Value | None]:
        kinds = {bool(ratio) for ratio in self.ratios}
        tables = {kind: self.turns(g, "rope_table", kind) for kind in sorted(kinds)}
        self.turns_back = {kind: self.turns(g, "rope_table_back", kind, -1) for kind in tables}
        self.group_turns = {ratio: self.turns(g, f"rope_table_{ratio}", True, back=ratio - 1)
                            for ratio in sorted(set(self.ratios) - {0})}
        return [tables[bool(ratio)] for ratio in self.ratios]

    def turns(self, g: GraphBuilder, name: str, compressed: bool, sign: int = 1, back: int = 0
              ) -> Value:
        """The table of rotations for a layer with or without a compression ratio."""
        base = self.hparams.float("attention.compress_rope_freq_base") if compressed else None
        freqs = rope_attrs(self.hparams, self.tensors, self.heads[0].n_rot, base=base,
                           scaled=compressed)["freqs"]
        assert isinstance(freqs, tuple)
        attrs: dict[str, Attr] = {"freqs": tuple(sign * f for f in freqs), "magnitude": 1.0}
        if back:
            attrs["back"] = back
        return g.one("rope_table", g.inputs["positions"], attrs=attrs,
                     name=f"{name}_compressed" if compressed else name)

    def turned(self, g: GraphBuilder, x: Value, table: Value, name: str) -> Value:
        """The last dimensions of each head of x rotated."""
        h = self.heads[g.layer]
        return g.one("rope", x, table, name=name, attrs={
            "style": "norm", "head_dim": h.k_dim, "first": h.k_dim - h.n_rot})

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        h, ratio = self.heads[g.layer], self.ratios[g.layer]
        assert table is not None
        (q,) = self.linear(g, x, {"attn_q_a": self.query_rank}, "attn_q_a")
        (q,) = self.linear(g, self.norm(g, q, "attn_q_a_norm"), {"attn_q_b": h.n_heads * h.k_dim},
                           "attn_q_b")
        q = self.turned(g, self.plain_norm(g, q, "attn_q_norm", h.k_dim), table, "rope_q")
        (row,) = self.linear(g, x, {"attn_kv": h.k_dim}, "attn_kv")
        row = self.turned(g, self.norm(g, row, "attn_kv_a_norm"), table, "rope_k")
        if ratio:
            y = self.attend_to_groups(g, q, row, self.compressed(g, x, ratio), ratio)
        else:
            y = self.attend(g, q, row, row)
        y = self.turned(g, y, self.turns_back[bool(ratio)], "rope_back")
        w = self.tensors.grouped(self.name(g, "attn_output_a.weight"), self.n_groups,
                                 self.out_rank, n_columns(y) // self.n_groups)
        y = g.one("head_linear", y, name="attn_out_a", weights={"w": w})
        return self.linear(g, y, {"attn_output_b": self.n_embd}, "attn_out")[0]

    def compressed(self, g: GraphBuilder, x: Value, ratio: int) -> Value:
        """The compressed row of each ``ratio`` tokens, stored at the last of them."""
        dim, part = self.heads[g.layer].k_dim, "attn_compressor"
        n_groups = 2 if ratio == INDEXED else 1
        n = n_groups * dim
        values, scores = self.linear(g, x, {f"{part}_kv": n, f"{part}_gate": n}, part)
        place = self.tensors.weight(self.name(g, f"{part}_ape.weight"), ratio, n)
        y = g.one("pool_tokens", values, scores, g.inputs["positions"], name=f"{part}_pool",
                  weights={"place": place}, attrs={"ratio": ratio, "n_groups": n_groups})
        return self.turned(g, self.norm(g, y, f"{part}_norm"), self.group_turns[ratio],
                           "rope_compressed")

    def attend_to_groups(self, g: GraphBuilder, q: Value, row: Value, group: Value, ratio: int
                         ) -> Value:
        """The attention of queries over the rows of a window and the compressed rows of groups."""
        h = self.heads[g.layer]
        state = KVSpec(g.layer, 1, h.k_dim, h.k_dim)
        g.add("kv_write", (row, group), name="kv_write", state=state)
        sinks = self.tensors.weight(self.name(g, "attn_sinks.weight"), h.n_heads)
        return g.one("pooled_attention", q, name="attn", state=state, weights={"sinks": sinks},
                     attrs={"n_heads": h.n_heads, "scale": self.scoring(g.layer).scale,
                            "window": self.window(), "ratio": ratio})

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        """The output of the experts. In the first layers the token alone chooses the experts."""
        if g.layer >= self.hparams.int("hash_layer_count", 0):
            return super().experts(g, x)
        n_used = self.hparams.int("expert_used_count", minimum=1)
        table = self.tensors.weight(self.name(g, "ffn_gate_tid2eid.weight"), self.n_vocab, n_used)
        given = g.one("embed", g.inputs["tokens"], name="ffn_given", weights={"w": table})
        return self.with_shared(g, x, mixture(self, g, x, given=given))

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        return self._cut_at(g, "swiglu_clamp_exp")

    def dense_attrs(self, g: GraphBuilder, suffix: str) -> dict[str, Attr]:
        key = "swiglu_clamp_shexp"
        return self._cut_at(g, key if key in self.hparams else "swiglu_clamp_exp")

    def _cut_at(self, g: GraphBuilder, key: str) -> dict[str, Attr]:
        limits = self.hparams.per_layer_float(key, self.n_layers)
        return {"act": self.act, **limit_attrs(self.hparams, limits[g.layer])}


INDEXED = 4
"""The compression ratio of layers with an indexer."""
