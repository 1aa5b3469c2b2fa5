"""MiniMax-01 (MiniMax 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.layers import columns


class MiniMax01(Hybrid):
    """Seven of eight layers are lightning attention; residuals are taken after the norms."""

    arch = "minimax-01"
    rope_style = "neox"
    unbiased = frozenset({"attn_output"})
    fewest_heads = 1

    def read_recurrent(self) -> list[bool]:
        return list(self.recurrent_layers(8))

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        x = self.norm(g, x, self.attn_norm)
        x = self._after(g, x, self.attention(g, x, table), "attn_residual")
        x = self.norm(g, x, self.ffn_norm)
        return self._after(g, x, self.feed_forward(g, x), "ffn_residual")

    def _after(self, g: GraphBuilder, x: Value, y: Value, name: str) -> Value:
        scale = self.hparams.float("residual_scale")
        return self.residual(g, self.scaled(g, x, scale, f"{name}_scaled"), y, name)

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        """Lightning attention: each head has a state that decays at a rate of its own, slower in
        deeper layers."""
        h = self.heads[g.layer]
        n, dim = h.n_heads * h.k_dim, h.k_dim
        (qkv,) = self.linear(g, x, {"attn_qkv": 3 * n}, "attn_qkv")
        qkv = g.one("activation", qkv, name="attn_qkv_silu", attrs={"act": "silu"})
        q, k, v = (columns(g, qkv, f"lightning_{part}", 3 * dim, i * dim, dim)
                   for i, part in enumerate("qkv"))
        depth = 1 - g.layer / max(1, self.n_layers - 1) + 1e-5
        decay = tuple(-depth * 2.0 ** (-8 * (i + 1) / h.n_heads) for i in range(h.n_heads))
        y = g.one("linear_attention", q, k, v, name="lightning", attrs={
            "n_heads": h.n_heads, "n_k_heads": h.n_heads, "delta": False, "tiled": False,
            "scale": 1.0, "decay": decay})
        y = self.norm(g, y, "attn_norm_2")
        (gate,) = self.linear(g, x, {"attn_gate": n}, "attn_gate")
        y = g.one("glu", gate, y, name="attn_gated", attrs={"act": "sigmoid"})
        return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]
