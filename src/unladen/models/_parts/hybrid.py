"""Decoders in which some layers have a recurrent state in place of keys and values."""

from __future__ import annotations

from collections.abc import Sequence

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder


class Hybrid(Decoder):
    """In recurrent layers :meth:`mix` takes the place of :meth:`attention`.
    :meth:`read_recurrent` says which layers are recurrent: by default those without key/value
    heads."""

    fewest_heads = 0

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.recurrent = self.read_recurrent()

    def read_recurrent(self) -> Sequence[bool]:
        """For each layer, whether it is recurrent."""
        return [h.n_kv_heads == 0 for h in self.heads]

    def recurrent_layers(self, period: int) -> Sequence[bool]:
        """For each layer, whether it is recurrent: as ``attention.recurrent_layers`` says, else all
        layers but every ``full_attention_interval``-th or ``period``-th."""
        key = "attention.recurrent_layers"
        if key in self.hparams:
            return self.hparams.per_layer_bool(key, self.n_layers)
        period = self.hparams.int("full_attention_interval", period, minimum=1)
        return [(i + 1) % period != 0 for i in range(self.n_layers)]

    def attention(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        if self.recurrent[g.layer]:
            return self.mix(g, x)
        return self.attend_to_all(g, x, table)

    def attend_to_all(self, g: GraphBuilder, x: Value, table: Value | None) -> Value:
        """The attention of a layer that isn't recurrent."""
        return super().attention(g, x, table)

    def mix(self, g: GraphBuilder, x: Value) -> Value:
        """The recurrent part of a layer of x f32 [T, n_embd]."""
        raise NotImplementedError
