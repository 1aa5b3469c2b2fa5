"""Builds the feed-forward network of a layer: plain, gated, or a mixture of experts."""

from __future__ import annotations

from typing import ClassVar

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.experts import mixture, shared
from unladen.models._parts.layers import Layers


class FeedForward(Layers):
    """The feed-forward network. ``act`` is the activation of the gate, or of all hidden units if
    ``gated`` is False.

    ``expert_gating`` and ``expert_normalize`` say how experts' weights are computed;
    ``weigh_input``: the weights multiply the experts' inputs, not their outputs.
    """

    act: ClassVar[str] = "silu"
    gated: ClassVar[bool] = True
    expert_gating: ClassVar[str] = "softmax"
    expert_normalize: ClassVar[bool] = True
    weigh_input: ClassVar[bool] = False

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        """The output of the dense or the expert network: the layer's tensors decide."""
        if self.has(g, "ffn_gate_inp"):
            return self.experts(g, x)
        return self.dense(g, x, self.n_ff(g.layer))

    def n_ff(self, layer: int) -> int:
        """Hidden units of the dense network of ``layer``."""
        return self.hparams.per_layer("feed_forward_length", self.n_layers, minimum=1)[layer]

    def dense(self, g: GraphBuilder, x: Value, n_ff: int, suffix: str = "") -> Value:
        """``down(act(gate x) * up x)``, or ``down(act(up x))``, with ``n_ff`` hidden units.
        ``suffix`` is the end of the tensors' names, such as ``_shexp``."""
        y = self.hidden(g, x, n_ff, suffix)
        (y,) = self.linear(g, y, {f"ffn_down{suffix}": self.n_embd}, f"ffn_out{suffix}")
        return y

    def hidden(self, g: GraphBuilder, x: Value, n_ff: int, suffix: str = "") -> Value:
        """The hidden units. Where the gate has no matrix of its own, it may be the first half of
        ``ffn_up``."""
        gate, up = f"ffn_gate{suffix}", f"ffn_up{suffix}"
        if not self.gated:
            (y,) = self.linear(g, x, {up: n_ff}, up)
            return g.one("activation", y, name=f"ffn_act{suffix}",
                         attrs=self.dense_attrs(g, suffix))
        n_rows = self.tensors.shape(self.name(g, up) + ".weight")[0]
        if n_rows == 2 * n_ff and not self.has(g, gate):
            pair = self.stacked(g, x, up, [n_ff, n_ff], f"ffn_gate_up{suffix}")
        else:
            pair = self.linear(g, x, {gate: n_ff, up: n_ff}, f"ffn_gate_up{suffix}")
        return g.one("glu", *pair, name=f"ffn_glu{suffix}", attrs=self.dense_attrs(g, suffix))

    def unit_attrs(self, g: GraphBuilder) -> dict[str, Attr]:
        """Attributes of the hidden units of the layer being built."""
        return {"act": self.act}

    def dense_attrs(self, g: GraphBuilder, suffix: str) -> dict[str, Attr]:
        """:meth:`unit_attrs` for a dense network whose tensors' names end in ``suffix``."""
        return self.unit_attrs(g)

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        """The output of the mixture of experts and of the shared experts."""
        return self.with_shared(g, x, mixture(self, g, x))

    def with_shared(self, g: GraphBuilder, x: Value, y: Value) -> Value:
        """y, the mixture's output, plus the output of the shared experts."""
        beside = shared(self, g, x)
        return y if beside is None else g.one("add", y, beside, name="ffn_with_shexp")

    def expert_size(self, g: GraphBuilder, suffix: str = "_exps") -> int:
        """Hidden units of each expert in the layer being built."""
        hp = self.hparams
        if suffix != "_exps":
            return self.tensors.shape(self.name(g, f"ffn_down{suffix}.weight"))[-1]
        sizes = hp.per_layer("expert_feed_forward_length", self.n_layers, 0)
        return sizes[g.layer] or hp.int("feed_forward_length", minimum=1)
