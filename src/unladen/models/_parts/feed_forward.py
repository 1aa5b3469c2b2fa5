"""The feed-forward network of a layer: plain, gated, or a mixture of experts."""

from __future__ import annotations

from typing import ClassVar

from unladen.errors import GGUFError
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value
from unladen.models._parts.layers import Layers


class FeedForward(Layers):
    """``act`` of the gate, or with ``gated`` False of all of it."""

    act: ClassVar[str] = "silu"
    gated: ClassVar[bool] = True
    expert_gating: ClassVar[str] = "softmax"
    expert_normalize: ClassVar[bool] = True

    def feed_forward(self, g: GraphBuilder, x: Value) -> Value:
        """The dense or the expert network, as the layer's tensors have it."""
        return self.experts(g, x) if self.has(g, "ffn_gate_inp") else self.dense(g, x)

    def n_ff(self, layer: int) -> int:
        """Inner columns of the dense network of ``layer``."""
        return self.hparams.per_layer("feed_forward_length", self.n_layers, minimum=1)[layer]

    def dense(self, g: GraphBuilder, x: Value) -> Value:
        """``down(act(gate x) * up x)``, or ``down(act(up x))``."""
        y = self.hidden(g, x, self.n_ff(g.layer))
        return self.linear(g, y, {"ffn_down": self.n_embd}, "ffn_out")[0]

    def hidden(self, g: GraphBuilder, x: Value, n_ff: int) -> Value:
        """What the last product of the dense network gets. A gate without a matrix of its own may
        be the first half of ``ffn_up``."""
        if not self.gated:
            (up,) = self.linear(g, x, {"ffn_up": n_ff}, "ffn_up")
            return g.one("activation", up, name="ffn_act", attrs={"act": self.act})
        up_rows = self.tensors.shape(self.name(g, "ffn_up.weight"))[0]
        if up_rows == 2 * n_ff and not self.has(g, "ffn_gate"):
            gate, up = self.packed(g, x, "ffn_up", [n_ff, n_ff], "ffn_gate_up")
        else:
            gate, up = self.linear(g, x, {"ffn_gate": n_ff, "ffn_up": n_ff}, "ffn_gate_up")
        return g.one("glu", gate, up, name="ffn_glu", attrs={"act": self.act})

    def experts(self, g: GraphBuilder, x: Value) -> Value:
        """A mixture of experts."""
        hp, t = self.hparams, self.tensors
        n, n_experts = self.n_embd, hp.int("expert_count", minimum=1)
        n_used = hp.int("expert_used_count", minimum=1)
        if n_used > n_experts:
            raise GGUFError(f"{n_used} of {n_experts} experts are to be used", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        n_ff = hp.int("expert_feed_forward_length", 0) or hp.int("feed_forward_length", minimum=1)
        weights = {
            "router": t.weight(self.name(g, "ffn_gate_inp.weight"), n_experts, n),
            "gate": t.weight(self.name(g, "ffn_gate_exps.weight"), n_experts, n_ff, n),
            "up": t.weight(self.name(g, "ffn_up_exps.weight"), n_experts, n_ff, n),
            "down": t.weight(self.name(g, "ffn_down_exps.weight"), n_experts, n, n_ff),
        }
        attrs: dict[str, Attr] = {
            "n_used": n_used, "gating": self.expert_gating, "normalize": self.expert_normalize,
            "scale": hp.float("expert_weights_scale", 0.0) or 1.0, "act": self.act}
        return g.one("moe", x, name="ffn_moe", weights=weights, attrs=attrs)

