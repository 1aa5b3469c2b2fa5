"""Encoders: every token sees the whole text, and a step gives embeddings instead of logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.graph.ops.attention import Scoring
from unladen.models._parts.decoder import Decoder


class Encoder(Decoder):
    """An encoder built like BERT (Devlin et al. 2018): layer norms after each sum and after the
    embeddings. Where the file has token types, the embedding of the first type is added; a model
    that ranks texts adds that of the second type to the tokens of a second text."""

    norm_op = "layer_norm"

    def scoring(self, layer: int) -> Scoring:
        return replace(super().scoring(layer), causal=False)

    def embed(self, g: GraphBuilder) -> Value:
        x = super().embed(g)
        name = "token_types.weight"
        if name in self.tensors:
            types = self.tensors.weight(name, self.tensors.shape(name)[0], self.n_embd)
            first = {"b": types.rows(0, 1)}
            if self._tells_texts_apart:
                nothing = g.one("scale", x, name="no_types", attrs={"s": 0.0})
                kinds = g.one("add", nothing, name="first_type", weights=first)
                x = g.one("add", x, g.insert_rows(kinds), name="token_types")
            else:
                x = g.one("add", x, name="token_types", weights=first)
        return self.norm(g, x, "token_embd_norm")

    @property
    def _tells_texts_apart(self) -> bool:
        """Whether two texts have tokens of two types. Only BERT's tokenizer makes them."""
        return ("token_types.weight" in self.tensors
                and self.tensors.shape("token_types.weight")[0] > 1
                and self.hparams.get_str("tokenizer.ggml.model", "") == "bert"
                and ("cls.output.weight" in self.tensors or "cls.weight" in self.tensors))

    def second_text(self) -> npt.NDArray[np.float32] | None:
        if not self._tells_texts_apart:
            return None
        name = "token_types.weight"
        types = self.tensors.values(name, *self.tensors.shape(name))
        return None if types is None else types[1]

    def block(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        y = self.residual(g, x, self.attention(g, x, table), "attn_residual")
        y = self.norm(g, y, "attn_output_norm")
        if self.has(g, "attn_norm_2"):
            y = self.norm(g, self.residual(g, y, x, "layer_residual"), "attn_norm_2")
        z = self.residual(g, y, self.feed_forward(g, y), "ffn_residual")
        return self.norm(g, z, "layer_output_norm")

    def outputs(self, g: GraphBuilder, x: Value) -> dict[str, Value]:
        return {"embeddings": x}
