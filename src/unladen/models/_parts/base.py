"""What an architecture is: hyper-parameters and tensors in, a graph out."""

from __future__ import annotations

from typing import ClassVar

from unladen.gguf import GGUFFile, HParams
from unladen.graph.graph import Graph
from unladen.models._parts.blocks import count_layers
from unladen.models._parts.load import Tensors


class Architecture:
    """One value of ``general.architecture``. Subclasses say how the graph is built.

    ``n_layers``, ``n_embd``, ``n_vocab``, ``context_length`` (what it was trained for) are read
    from the file when the object is made; a wrong or missing one raises :class:`GGUFError`.
    """

    arch: ClassVar[str]
    mixes_as_falcon: ClassVar[bool] = False
    """Whether the published mixes of block formats treat its weights as they treat Falcon's."""
    n_layers_70b: ClassVar[int] = 0
    """How many layers its model of 70B has, whose values those mixes give more bits; 0: none."""
    grouped_70b: ClassVar[bool] = False
    """Whether that is so only where heads share keys and values."""

    layers_may_be_empty: ClassVar[bool] = False
    """Whether there are layers without any tensor, which do nothing."""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        self.hparams = hparams
        self.tensors = Tensors(file)
        self.n_layers = count_layers(hparams, file.tensors, self.n_stored(),
                                     may_be_empty=self.layers_may_be_empty)
        self.n_embd = hparams.int("embedding_length", minimum=1)
        self.context_length = self.context = hparams.int("context_length", minimum=1)
        self.n_vocab = self.tensors.shape("token_embd.weight")[0]

    def n_stored(self) -> int | None:
        """Blocks in the file, where a step runs some of them more than once; None: each is a layer.
        """
        return None

    def build(self, context: int | None = None) -> Graph:
        """The graph of a step: inputs as in :class:`~unladen.graph.builder.GraphBuilder`, output
        ``logits`` f32 [S, n_vocab]. ``context``: tokens that a sequence may have, None for as many
        as it was trained for; some ways of stretching it depend on that."""
        raise NotImplementedError
