"""RWKV 6 "Finch" (Peng et al. 2024)."""

from __future__ import annotations

from dataclasses import replace

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.rwkv import Rwkv

MIXES = ("w", "k", "v", "r", "g")
"""The inputs that a layer mixes with the token before, in the order of their weights."""


class Rwkv6(Rwkv):
    """The input determines the shares of the token before and the decay of the state."""

    arch = "rwkv6"

    def time_mix(self, g: GraphBuilder, x: Value) -> Value:
        w, k, v, r, gate = self._mixes(g, x)
        r, k, v, gate = self.products(g, {"receptance": r, "key": k, "value": v, "gate": gate})
        w = self.low_rank(g, w, ("time_mix_decay_w1", "time_mix_decay_w2"), "tanh",
                          "time_mix_decay")
        w = g.one("activation", w, name="time_mix_decay_exp", attrs={"act": "exp"})
        w = self.scaled(g, w, -1.0, "time_mix_decay_log")
        attrs: dict[str, Attr] = {"n_heads": self.n_heads, "n_k_heads": self.n_heads,
                                  "delta": False, "tiled": False, "scale": 1.0}
        first = self.tensors.weight(self.name(g, "time_mix_first.weight"), self.n_heads,
                                    self.head_dim)
        y = g.one("linear_attention", r, k, v, w, name="time_mix_state", weights={"first": first},
                  attrs=attrs)
        y = g.one("glu", gate, self.head_normed(g, y), name="time_mix_gated", attrs={"act": "silu"})
        return self.linear(g, y, {"time_mix_output": self.n_embd}, "time_mix_output")[0]

    def _mixes(self, g: GraphBuilder, x: Value) -> list[Value]:
        """For each of :data:`MIXES`, x mixed with its share of the token before."""
        n, t = self.n_embd, self.tensors
        change = self.change(g, x, "time")
        seen = self.mixed(g, x, change, "time_mix_lerp_x")
        n_hidden = t.shape(self.name(g, "time_mix_w1.weight"))[0] // len(MIXES)
        hidden = self.stacked(g, seen, "time_mix_w1", [n_hidden] * len(MIXES), "time_mix_w1")
        up = t.weight(self.name(g, "time_mix_w2.weight"), len(MIXES), n, n_hidden)
        up = replace(up, shape=(len(MIXES) * n, n_hidden))
        fused = self.has(g, "time_mix_lerp_fused")
        mixes = []
        for i, name in enumerate(MIXES):
            part = g.one("activation", hidden[i], name=f"time_mix_{name}_tanh",
                         attrs={"act": "tanh"})
            share = (self.vectors(g, "time_mix_lerp_fused", len(MIXES))[i] if fused
                     else self.vectors(g, f"time_mix_lerp_{name}", 1)[0])
            (part,) = g.add("linear", (part,), name=f"time_mix_{name}_share",
                            weights={"w0": up.rows(i * n, n), "b0": share})
            part = self.times(g, part, change, f"time_mix_{name}_change")
            mixes.append(g.one("add", x, part, name=f"time_mix_{name}_mixed"))
        return mixes

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        x = super().block(g, x, table)
        period = self.hparams.int("rescale_every_n_layers", 0)
        halve = period > 0 and (g.layer + 1) % period == 0
        return self.scaled(g, x, 0.5 if halve else 1.0, "halved")
