"""Gated delta nets (Yang et al. 2024), as in Qwen's models."""

from __future__ import annotations

from dataclasses import dataclass

from unladen.errors import GGUFError
from unladen.gguf import HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value, Weight
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.layers import Layers, columns, n_columns
from unladen.models._parts.mamba import convolved


@dataclass(frozen=True, slots=True)
class DeltaHeads:
    """The ``ssm.*`` keys as delta nets use them: heads and their sizes."""

    n_k_heads: int
    n_heads: int
    k_dim: int
    v_dim: int
    taps: int

    @classmethod
    def read(cls, hp: HParams) -> DeltaHeads:
        """Raises :class:`GGUFError`."""
        n_heads, inner = (hp.int(key, minimum=1) for key in ("ssm.time_step_rank",
                                                             "ssm.inner_size"))
        heads = cls(hp.int("ssm.group_count", minimum=1), n_heads,
                    hp.int("ssm.state_size", minimum=1), inner // n_heads,
                    hp.int("ssm.conv_kernel", minimum=2))
        if inner % n_heads or n_heads % heads.n_k_heads:
            raise GGUFError(f"a delta net can't have {heads}", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        return heads


class DeltaNet(Hybrid):
    """Three of four layers are delta nets; the others are attention with a gated output.

    ``tiled``: value head h uses the key head h modulo their number.
    """

    rope_style = "neox"
    fewest_heads = 1
    ffn_norm = "post_attention_norm"
    tiled = False

    def read_recurrent(self) -> list[bool]:
        return list(self.recurrent_layers(4))

    def attend_to_all(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """Attention whose matrix of queries also holds the gates, head by head."""
        h = self.heads[g.layer]
        rows = {"attn_q": 2 * h.n_heads * h.k_dim, "attn_k": h.n_kv_heads * h.k_dim,
                "attn_v": h.n_kv_heads * h.v_dim}
        both, k, v = self.linear(g, x, rows, "attn_qkv")
        q, gate = (columns(g, both, name, 2 * h.k_dim, first, h.k_dim)
                   for name, first in (("attn_q", 0), ("attn_gate", h.k_dim)))
        q, k = self.rotate(g, *self.head_norms(g, q, k), table)
        y = g.one("glu", gate, self.attend(g, q, k, v), name="attn_gated", attrs={"act": "sigmoid"})
        return self.linear(g, y, {"attn_output": self.n_embd}, "attn_out")[0]

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        h = DeltaHeads.read(self.hparams)
        n_k, n_v = h.n_k_heads * h.k_dim, h.n_heads * h.v_dim
        q, k, v = self.stacked(g, x, "attn_qkv", [n_k, n_k, n_v], "attn_qkv")
        (z,) = self.linear(g, x, {"attn_gate": n_v}, "attn_gate")
        q, k, v = convolved(self, g, "ssm_conv1d", h.taps, [q, k, v])
        q, k = (unit(g, value, f"{name}_unit", h.k_dim, self.eps)
                for value, name in ((q, "q"), (k, "k")))
        beta, alpha = self.gates(g, x, h)
        decay = log_decay(self, g, alpha, h.n_heads)
        beta = g.one("activation", beta, name="ssm_beta_sigmoid", attrs={"act": "sigmoid"})
        attrs: dict[str, Attr] = {"n_heads": h.n_heads, "n_k_heads": h.n_k_heads, "delta": True,
                                  "tiled": self.tiled, "scale": h.k_dim ** -0.5}
        y = g.one("linear_attention", q, k, v, decay, beta, name="delta_net", attrs=attrs)
        w = self.tensors.weight(self.name(g, "ssm_norm.weight"), h.v_dim)
        y = g.one("rms_norm", y, name="ssm_norm", weights={"w": w}, attrs={"eps": self.eps})
        y = g.one("glu", z, y, name="ssm_gated", attrs={"act": "silu"})
        return self.linear(g, y, {"ssm_out": self.n_embd}, "ssm_out")[0]

    def gates(self, g: GraphBuilder, x: Value, h: DeltaHeads) -> tuple[Value, Value]:
        """Beta before its sigmoid, and alpha: f32 [T, n_heads] each."""
        raise NotImplementedError


def unit(g: GraphBuilder, x: Value, name: str, dim: int, eps: float) -> Value:
    """x with every head scaled to length 1."""
    return g.one("l2_norm", x, name=name, attrs={"head_dim": dim, "eps": eps})


def log_decay(model: Layers, g: GraphBuilder, alpha: Value, n_heads: int) -> Value:
    """``ssm_a * softplus(alpha + ssm_dt)``: the logarithm of the factor by which a state decays."""
    alpha = g.one("activation", with_dt(model, g, alpha), name="ssm_dt_softplus",
                  attrs={"act": "softplus"})
    return g.one("scale", alpha, name="ssm_decay", attrs={"s": 1.0},
                 weights={"w": state_decay(model, g, n_heads)})


def with_dt(model: Layers, g: GraphBuilder, alpha: Value) -> Value:
    """``alpha + ssm_dt``."""
    bias = {"b": model.tensors.weight(model.name(g, "ssm_dt.bias"), n_columns(alpha))}
    return g.one("add", alpha, name="ssm_dt", weights=bias)


def state_decay(model: Layers, g: GraphBuilder, n_heads: int) -> Weight:
    """The weight ``ssm_a``: one number for each head."""
    t, name = model.tensors, model.name(g, "ssm_a")
    return t.weight(name, *_shape_of(t.shape(name), n_heads))


def _shape_of(found: tuple[int, ...], n: int) -> tuple[int, ...]:
    return found if found in ((n, 1), (1, n), (1, 1, n, 1), (n, 1, 1)) else (n,)
