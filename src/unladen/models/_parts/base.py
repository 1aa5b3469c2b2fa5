"""The base class of architectures, which build a graph from hyper-parameters and tensors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from unladen.gguf import GGUFFile, HParams
from unladen.graph.graph import Graph
from unladen.models._parts.blocks import count_layers
from unladen.models._parts.load import Tensors


class Architecture:
    """One value of ``general.architecture``. Subclasses build the graph.

    The constructor reads ``n_layers``, ``n_embd``, ``n_vocab`` and ``context_length`` (the trained
    length) from the file; a wrong or missing one raises :class:`GGUFError`.
    """

    arch: ClassVar[str]
    mixes_as_falcon: ClassVar[bool] = False
    """Whether the published mixes of block formats treat its weights as they treat Falcon's."""
    n_layers_70b: ClassVar[int] = 0
    """How many layers the architecture's 70B model has: the mixes give its values more bits. 0 if
    there is no such model."""
    grouped_70b: ClassVar[bool] = False
    """Whether the mixes do so only where heads share keys and values."""

    ranking_act: ClassVar[str] = "tanh"
    """The function between the two layers of a classifier that ranks texts."""
    layers_may_be_empty: ClassVar[bool] = False
    """Whether a layer may have no tensors; such a layer does nothing."""

    def __init__(self, file: GGUFFile, hparams: HParams) -> None:
        self.hparams = hparams
        self.tensors = Tensors(file)
        self.n_layers = count_layers(hparams, file.tensors, self.n_stored(),
                                     may_be_empty=self.layers_may_be_empty)
        self.n_embd = hparams.int("embedding_length", minimum=1)
        self.context_length = self.context = hparams.int("context_length", minimum=1)
        self.n_vocab = self.tensors.shape("token_embd.weight")[0]

    def n_stored(self) -> int | None:
        """The number of blocks in the file where a step runs some of them more than once; None
        where each block is one layer."""
        return None

    def second_text(self) -> npt.NDArray[np.float32] | None:
        """The row f32 [n_embd] that a step takes for each token of the second one of two texts,
        where the model tells them apart; None where it doesn't."""
        return None

    def build(self, context: int | None = None) -> Graph:
        """The graph of a step. Its inputs are those of
        :class:`~unladen.graph.builder.GraphBuilder`, its output is ``logits`` f32 [S, n_vocab].
        ``context``: tokens that a sequence may have, by default the trained length; some ways of
        extending the context depend on it."""
        raise NotImplementedError
