"""Scores how well a text answers a query, from the embeddings of both texts' tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]


def _gelu(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return x * 0.5 * (1.0 + np.array([math.erf(each) for each in x / math.sqrt(2.0)]))


ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType({"tanh": np.tanh,
                                                                    "gelu": _gelu})
"""Functions between the two layers of a head."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer: ``weight`` f32 [n_out, n_in], ``bias`` f32 [n_out] or None."""

    weight: Rows
    bias: Rows | None = None

    def __call__(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        y = self.weight.astype(np.float64) @ x
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True, slots=True)
class Head:
    """The classifier on top of a model that ranks texts.

    * ``dense``: the layer before ``out``, with ``activation`` and, where ``norm`` has weights,
      layer norm of ``eps`` behind it; None: there is none.
    * ``out``: gives a number for each label.
    * ``reads_last``: it reads the embedding of the last token; else that of the first.
    * ``relevant``: of two labels, the number of the one that says that a text answers the query.
    """

    out: Layer
    dense: Layer | None = None
    activation: str = "tanh"
    norm: Rows | None = None
    eps: float = 1e-5
    reads_last: bool = False
    relevant: int = 0

    def score(self, rows: Rows) -> float:
        """The score of a text whose tokens have the embeddings ``rows`` f32 [n_tokens, n_embd]:
        the number of a head with one label; with two labels the probability of the relevant one."""
        x = rows[-1 if self.reads_last else 0].astype(np.float64)
        if self.dense is not None:
            x = ACTIVATIONS[self.activation](self.dense(x))
            if self.norm is not None:
                x = x - x.mean()
                x = x / np.sqrt((x * x).mean() + self.eps) * self.norm
        y = self.out(x)
        if len(y) == 1:
            return float(y[0])
        return probability(float(y[self.relevant]), float(y[1 - self.relevant]))


def probability(yes: float, no: float) -> float:
    """The probability of the logit ``yes`` beside the logit ``no``."""
    return 1.0 / (1.0 + math.exp(min(max(no - yes, -700.0), 700.0)))
