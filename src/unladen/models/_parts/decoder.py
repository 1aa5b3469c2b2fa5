"""The decoder that most architectures vary: norm, attention, norm, feed-forward, both residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from unladen.errors import GGUFError
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import AFTER_LAYERS, Graph, Value
from unladen.models._parts.attention import Attention
from unladen.models._parts.feed_forward import FeedForward

RANK = 4
"""GGUF's number of ``pooling_type`` for models that rank texts."""


class Decoder(Attention, FeedForward):
    """A decoder-only transformer, by default with RMS norms, rotary embedding and a gated
    feed-forward network.

    Subclasses set class attributes of this class and its bases, or override a method. The class
    attributes for the four norms of a layer hold GGUF's names; a norm with an empty name is left
    out. ``n_axes``: the number of coordinates of a position.
    """

    attn_norm: ClassVar[str] = "attn_norm"
    attn_post_norm: ClassVar[str] = ""
    ffn_norm: ClassVar[str] = "ffn_norm"
    ffn_post_norm: ClassVar[str] = ""
    n_axes: ClassVar[int] = 1

    def build(self, context: int | None = None) -> Graph:
        """See :meth:`Architecture.build`."""
        self.context = context or self.context_length
        g = GraphBuilder(self.n_axes)
        g.n_layers = self.n_layers
        x = self.layers(g, self.embed(g), self.positions(g))
        g.layer = AFTER_LAYERS
        x = g.one("select_rows", x, g.inputs["out_rows"], name="last_rows")
        outputs = self.outputs(g, x)
        self.tensors.report_unused(self.n_layers, self.spare, self.unbiased)
        return g.finish(**outputs)

    def layers(self, g: GraphBuilder, x: Value, tables: Sequence[Value | None]) -> Value:
        """x f32 [T, n_embd] after all layers; ``tables``: the rotations of each layer."""
        for layer in range(self.n_layers):
            g.layer = layer
            x = self.block(g, x, tables[layer])
        return x

    def embed(self, g: GraphBuilder) -> Value:
        """Token embeddings f32 [T, n_embd]."""
        table = self.tensors.weight("token_embd.weight", self.n_vocab, self.n_embd)
        return g.one("embed", g.inputs["tokens"], name="token_embd", weights={"w": table})

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """x f32 [T, n_embd] after one layer; ``table``: the rotations of its positions."""
        y = self.attention(g, self.norm(g, x, self.attn_norm), table)
        x = self.residual(g, x, self.norm(g, y, self.attn_post_norm), "attn_residual")
        y = self.feed_forward(g, self.norm(g, x, self.ffn_norm))
        return self.residual(g, x, self.norm(g, y, self.ffn_post_norm), "ffn_residual")

    def parallel_block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """x after one layer whose attention and feed-forward network both read the layer's input.
        The feed-forward network has a norm of its own where the file has one."""
        normed = self.norm(g, x, self.attn_norm)
        y = self.residual(g, x, self.attention(g, normed, table), "attn_residual")
        if self.has(g, self.ffn_norm):
            normed = self.norm(g, x, self.ffn_norm)
        return self.residual(g, y, self.feed_forward(g, normed), "ffn_residual")

    def residual(self, g: GraphBuilder, x: Value, y: Value, name: str) -> Value:
        """The residual x plus y, the output of a part of a layer."""
        return g.one("add", x, y, name=name)

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        """The outputs of a step by name, from the rows f32 [S, n_embd] of the last layer. The
        classifier of a model that ranks texts reads embeddings."""
        normed = self.norm(g, x, "output_norm")
        if self.hparams.int("pooling_type", 0) == RANK and "cls.output.weight" in self.tensors:
            self.tensors.optional("output.weight", self.n_vocab, self.n_embd)
            return {"embeddings": normed}
        return {"logits": self.head(g, normed)}

    def head(self, g: GraphBuilder, x: Value) -> Value:
        """Logits f32 [S, n_vocab]. Where the file has no output matrix, the token embeddings are
        used."""
        part = "output" if "output.weight" in self.tensors else "token_embd"
        return self.linear(g, x, {part: self.n_vocab}, "logits")[0]

    def capped(self, g: GraphBuilder, logits: Value, default: float = 0.0) -> Value:
        """Logits bounded by ``final_logit_softcapping``; 0 leaves them as they are.
        Raises :class:`GGUFError`."""
        cap = self.hparams.float("final_logit_softcapping", default)
        if cap == 0:
            return logits
        if not 0 < cap < math.inf:
            raise GGUFError(f"logits are capped at {cap}", path=self.hparams.path,
                            hint="the file is damaged or was converted wrongly")
        return g.one("softcap", logits, name="logits_capped", attrs={"cap": cap})
