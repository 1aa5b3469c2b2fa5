"""Learned positions: an embedding for each position instead of rotations."""

from __future__ import annotations

from unladen.gguf import GGUFFile, HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value
from unladen.models._parts.decoder import Decoder

TABLE = "position_embd.weight"
"""GGUF's name of the table of learned positions."""


class LearnedPositions(Decoder):
    """A decoder that adds ``position_embd`` to the token embeddings. The context can't be longer
    than that table.

    ``positions_required`` False: a file may lack the table.
    """

    rope_style = ""
    positions_required = True

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        super().__init__(file, hparams)
        self.n_positions = 0
        if self.positions_required or TABLE in self.tensors:
            self.n_positions = self.tensors.shape(TABLE)[0]
            self.context_length = min(self.context_length, self.n_positions)

    def embed(self, g: GraphBuilder) -> Value:
        x = super().embed(g)
        if self.n_positions == 0:
            return x
        table = self.tensors.weight(TABLE, self.n_positions, self.n_embd)
        where = g.one("embed", g.inputs["positions"], name="position_embd", weights={"w": table})
        return g.one("add", x, where, name="embd")
