"""RWKV 7 "Goose" (Peng et al. 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Graph, Value
from unladen.models._parts.delta_net import unit
from unladen.models._parts.rwkv import Rwkv

MIXES = ("r", "w", "k", "v", "a", "g")
"""The inputs that a layer mixes with the token before, in the order of their weights."""
SQRT_E = 0.606531
"""e^(-1/2): a step multiplies a state by at least e to minus this."""


class Rwkv7(Rwkv):
    """A state in which each step replaces the value at a key. Values are mixed with those of the
    first layer."""

    arch = "rwkv7"
    spare = frozenset({"time_mix_v0", "time_mix_v1", "time_mix_v2"})  # in the first layer

    def build(self, context: int | None = None) -> Graph:
        self._first_value: Value | None = None
        return super().build(context)

    def time_mix(self, g: GraphBuilder, x: Value) -> Value:
        change, gated = self.change(g, x, "time"), self.has(g, "time_mix_g1")
        n_mixes = len(MIXES) if gated else len(MIXES) - 1
        mixes = {name: self.mixed(g, x, change, "time_mix_lerp_fused", i, n_mixes)
                 for i, name in enumerate(MIXES[:n_mixes])}
        r, k, v = self.products(g, {"receptance": mixes["r"], "key": mixes["k"],
                                    "value": mixes["v"]})
        v = self._value(g, v, mixes["v"])
        decay = self._sigmoid(g, self.low_rank(g, mixes["w"], ("time_mix_w1", "time_mix_w2"),
                                               "tanh", "time_mix_w0"), "decay")
        decay = self.scaled(g, decay, -SQRT_E, "time_mix_decay")
        rate = self._sigmoid(g, self.low_rank(g, mixes["a"], ("time_mix_a1", "time_mix_a2"),
                                              "identity", "time_mix_a0"), "rate")
        found = unit(g, self._by(g, k, "time_mix_k_k"), "time_mix_found", self.head_dim, 1e-24)
        k = self._key(g, k, rate)
        y = g.one("rwkv_mix", r, decay, k, v, self.scaled(g, found, -1.0, "time_mix_taken"),
                  self.times(g, found, rate, "time_mix_replaced"), name="time_mix_state",
                  attrs={"n_heads": self.n_heads})
        own = self.times(g, r, self._by(g, k, "time_mix_r_k"), "time_mix_own")
        own = g.one("head_sum", own, name="time_mix_own_sum", attrs={"head_dim": self.head_dim})
        y = g.one("add", self.head_normed(g, y), self.times(g, own, v, "time_mix_own_value"),
                  name="time_mix_answer")
        if gated:
            gate = self.low_rank(g, mixes["g"], ("time_mix_g1", "time_mix_g2"), "sigmoid")
            y = self.times(g, gate, y, "time_mix_gated")
        return self.linear(g, y, {"time_mix_output": self.n_embd}, "time_mix_output")[0]

    def _value(self, g: GraphBuilder, v: Value, mixed: Value) -> Value:
        """v moved towards the first layer's v."""
        if self._first_value is None:
            self._first_value = v
            return v
        share = self._sigmoid(g, self.low_rank(g, mixed, ("time_mix_v1", "time_mix_v2"), "identity",
                                               "time_mix_v0"), "value_share")
        away = g.one("add", self._first_value, self.scaled(g, v, -1.0, "time_mix_v_negated"),
                     name="time_mix_v_away")
        return g.one("add", v, self.times(g, share, away, "time_mix_v_step"), name="time_mix_v")

    def _key(self, g: GraphBuilder, k: Value, rate: Value) -> Value:
        """``k + (rate - 1) k k_a``."""
        small = self._by(g, k, "time_mix_k_a")
        less = g.one("add", self.times(g, rate, small, "time_mix_k_rate"),
                     self.scaled(g, small, -1.0, "time_mix_k_negated"), name="time_mix_k_less")
        return g.one("add", k, less, name="time_mix_k")

    def _by(self, g: GraphBuilder, x: Value, part: str) -> Value:
        (weight,) = self.vectors(g, part, 1)
        return g.one("scale", x, name=f"{part}_scaled", weights={"w": weight}, attrs={"s": 1.0})

    def _sigmoid(self, g: GraphBuilder, x: Value, name: str) -> Value:
        return g.one("activation", x, name=f"time_mix_{name}_sigmoid", attrs={"act": "sigmoid"})
