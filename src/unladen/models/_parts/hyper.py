"""Decoders with several residual streams: hyper-connections (Zhu et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Attr, Value, Weight
from unladen.models._parts.decoder import Decoder


class HyperDecoder(Decoder):
    """Each half of a layer reads a weighted sum of ``hyper_connection.count`` residual streams,
    f32 [T, n_embd] each, stored side by side, and adds its output to all of them. The tensors
    ``hc_attn``, ``hc_ffn`` and ``output_hc`` compute the weights from the streams."""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_streams = hparams.int("hyper_connection.count", minimum=1)

    def hyper_attrs(self) -> Mapping[str, Attr]:
        """How weights become of products; see
        :class:`~unladen.graph.ops.hyper_weights.HyperWeights`."""
        return {"eps": self.hparams.float("hyper_connection.epsilon"), "magnitude": 2.0,
                "out_eps": 0.0,
                "n_rounds": self.hparams.int("hyper_connection.sinkhorn_iterations", minimum=1)}

    def n_hyper_weights(self) -> int:
        """How many weights a half of a layer has."""
        return (2 + self.n_streams) * self.n_streams

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        streams = g.one("concat", *[x] * self.n_streams, name="streams")
        return super().layers(g, streams, tables)

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y, weights = self.gather(g, x, "hc_attn", self.n_hyper_weights())
        y = self.attention(g, self.norm(g, y, self.attn_norm), table)
        x = self.spread(g, x, y, weights[0], "attn_residual")
        y, weights = self.gather(g, x, "hc_ffn", self.n_hyper_weights())
        y = self.feed_forward(g, self.norm(g, y, self.ffn_norm))
        return self.spread(g, x, y, weights[0], "ffn_residual")

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return super().outputs(g, self.gather(g, x, "output_hc", self.n_streams)[0])

    def gather(self, g: GraphBuilder, x: Value, part: str, n: int) -> tuple[Value, Sequence[Value]]:
        """The streams' weighted sum f32 [T, n_embd], and weights for :meth:`spread`; ``n``: weights
        in all."""
        normed = self.plain_norm(g, x, f"{part}_norm")
        (products,) = self.linear(g, normed, {f"{part}_fn": n}, f"{part}_fn")
        n_kinds = 1 if n == self.n_streams else 2 if n == 2 * self.n_streams else 3
        weights: dict[str, Weight] = {
            role: self.tensors.weight(self.name(g, f"{part}_{role}.weight"), size)
            for role, size in (("scale", n_kinds), ("base", n))}
        into, *rest = g.add("hyper_weights", (products,), name=f"{part}_weights", weights=weights,
                            attrs={"n_streams": self.n_streams, **self.hyper_attrs()})
        return g.one("hyper_mix", x, into, name=part, attrs={"width": self.n_embd}), rest

    def spread(self, g: GraphBuilder, x: Value, y: Value, weights: Value, name: str) -> Value:
        """The streams x after a half of a layer made y f32 [T, n_embd]."""
        return g.one("hyper_mix", x, y, weights, name=name, attrs={"width": self.n_embd})
