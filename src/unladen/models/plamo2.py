"""PLaMo 2 (Preferred Networks 2025)."""

from __future__ import annotations

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.hybrid import Hybrid
from unladen.models._parts.layers import columns
from unladen.models._parts.mamba import Ssm, convolved, scan


class Plamo2(Hybrid):
    """Norms around every part. Layers without key/value heads are Mamba with one decay rate per
    head; their inputs and gates alternate head by head."""

    arch = "plamo2"
    rope_style = "neox"
    attn_post_norm = "post_attention_norm"
    ffn_post_norm = "post_ffw_norm"

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        ssm, t = Ssm.read(self.hparams), self.tensors
        ssm.check_heads(self.hparams)
        dim = ssm.inner // ssm.rank
        (both,) = self.linear(g, x, {"ssm_in": 2 * ssm.inner}, "ssm_in")
        z, x = (columns(g, both, name, 2 * dim, first, dim)
                for name, first in (("ssm_z", 0), ("ssm_x_in", dim)))
        (x,) = convolved(self, g, "ssm_conv1d", ssm.taps, [x])
        sizes = [ssm.state, ssm.state, max(64, self.n_embd // 16)]
        b, c, dt = (self.norm(g, part, f"ssm_{name}_norm") for part, name in zip(
            self.stacked(g, x, "ssm_x", sizes, "ssm_x"), ("b", "c", "dt"), strict=True))
        (dt,) = self.linear(g, dt, {"ssm_dt": ssm.rank}, "ssm_dt")
        a = t.vector(self.name(g, "ssm_a"), ssm.rank)
        y = g.one("glu", z, scan(self, g, (x, dt, b, c), a, 1), name="ssm_gated",
                  attrs={"act": "silu"})
        return self.linear(g, y, {"ssm_out": self.n_embd}, "ssm_out")[0]
