"""What RWKV 6 and 7 share: layer norms, mixing with the token before, low-rank products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unladen.errors import GGUFError
from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value, Weight
from unladen.models._parts.decoder import Decoder
from unladen.models._parts.layers import Layers

HEAD_EPS = 64e-5
"""Epsilon of the norm of each head's output."""


class Rwkv(Decoder):
    """Time mixing and channel mixing. Both mix the normalized residual with that of the token
    before."""

    rope_style = ""
    norm_op = "layer_norm"

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        Layers.__init__(self, file, hparams)
        self.head_dim = hparams.int("wkv.head_size", minimum=1)
        self.n_heads = self.n_embd // self.head_dim
        if self.n_embd % self.head_dim:
            raise GGUFError(f"{self.n_embd} isn't a whole number of heads of {self.head_dim}",
                            path=hparams.path, hint="the metadata is damaged: convert it again")

    def embed(self, g: GraphBuilder) -> Value:
        return self.norm(g, super().embed(g), "token_embd_norm")

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y = self.time_mix(g, self.norm(g, x, "attn_norm"))
        x = self.residual(g, x, y, "time_residual")
        y = self.channel_mix(g, self.norm(g, x, "attn_norm_2"))
        return self.residual(g, x, y, "channel_residual")

    def time_mix(self, g: GraphBuilder, x: Value) -> Value:
        """The output of mixing x f32 [T, n_embd] along the sequence."""
        raise NotImplementedError

    def channel_mix(self, g: GraphBuilder, x: Value) -> Value:
        """The feed-forward network of x f32 [T, n_embd]."""
        change = self.change(g, x, "channel")
        key = self.mixed(g, x, change, "channel_mix_lerp_k")
        n_ff = self.hparams.int("feed_forward_length", minimum=1)
        (key,) = self.linear(g, key, {"channel_mix_key": n_ff}, "channel_mix_key")
        key = g.one("activation", key, name="channel_mix_act", attrs={"act": "relu_squared"})
        (y,) = self.linear(g, key, {"channel_mix_value": self.n_embd}, "channel_mix_value")
        if not self.has(g, "channel_mix_receptance"):
            return y
        gate = self.mixed(g, x, change, "channel_mix_lerp_r")
        (gate,) = self.linear(g, gate, {"channel_mix_receptance": self.n_embd},
                              "channel_mix_receptance")
        return g.one("glu", gate, y, name="channel_mix_gated", attrs={"act": "sigmoid"})

    def change(self, g: GraphBuilder, x: Value, name: str) -> Value:
        """x of the token before, minus x."""
        before = g.one("token_shift", x, name=f"{name}_before")
        return g.one("add", before, self.scaled(g, x, -1.0, f"{name}_negated"),
                     name=f"{name}_change")

    def mixed(self, g: GraphBuilder, x: Value, change: Value, part: str, row: int = 0,
              n_rows: int = 1) -> Value:
        """x plus ``change`` times the vector ``part``, or times row ``row`` of its ``n_rows`` rows.
        """
        weight = self.vectors(g, part, n_rows)[row]
        name = f"{part}.{row}"
        share = g.one("scale", change, name=f"{name}_share", weights={"w": weight},
                      attrs={"s": 1.0})
        return g.one("add", x, share, name=f"{name}_mixed")

    def vectors(self, g: GraphBuilder, part: str, n_rows: int) -> list[Weight]:
        """The ``n_rows`` vectors [n_embd] in ``part``, which may have extra dimensions of 1."""
        name, n = self.name(g, part) + ".weight", self.n_embd
        shape = self.tensors.shape(name)
        known = shape if [s for s in shape if s > 1] == [s for s in (n_rows, n) if s > 1] else (
            (n_rows, n) if n_rows > 1 else (n,))
        flat = replace(self.tensors.weight(name, *known), shape=(n_rows * n,))
        return [flat.rows(i * n, n) for i in range(n_rows)]

    def low_rank(self, g: GraphBuilder, x: Value, parts: Sequence[str], act: str,
                 bias: str = "") -> Value:
        """``second(act(first x))``, plus the vector ``bias``."""
        first, second = parts
        n_hidden = self.tensors.shape(self.name(g, first) + ".weight")[0]
        (x,) = self.linear(g, x, {first: n_hidden}, first)
        if act != "identity":
            x = g.one("activation", x, name=f"{first}_act", attrs={"act": act})
        (x,) = self.linear(g, x, {second: self.n_embd}, second)
        return self.plus(g, x, bias) if bias else x

    def plus(self, g: GraphBuilder, x: Value, part: str) -> Value:
        """x plus the vector ``part``."""
        (bias,) = self.vectors(g, part, 1)
        return g.one("add", x, name=f"{part}_added", weights={"b": bias})

    def times(self, g: GraphBuilder, a: Value, b: Value, name: str) -> Value:
        """The elementwise product of a and b; a column of a may serve several columns of b."""
        return g.one("glu", a, b, name=name, attrs={"act": "identity"})

    def head_normed(self, g: GraphBuilder, y: Value) -> Value:
        """y with every head normalized."""
        weights = {role: self.tensors.weight(self.name(g, f"time_mix_ln.{suffix}"), self.n_embd)
                   for role, suffix in (("w", "weight"), ("b", "bias"))}
        return g.one("layer_norm", y, name="time_mix_ln", weights=weights,
                     attrs={"eps": HEAD_EPS, "group": self.head_dim})

    def products(self, g: GraphBuilder, inputs: dict[str, Value]) -> list[Value]:
        """The products of ``time_mix_NAME`` with the inputs by name."""
        return [self.linear(g, x, {f"time_mix_{name}": self.n_embd}, f"time_mix_{name}")[0]
                for name, x in inputs.items()]
