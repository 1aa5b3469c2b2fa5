"""top_n_sigma: keep the logits that stand out from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, number, ordered_sum


@dataclass(frozen=True)
class TopNSigma(Step):
    """Keep the logits within ``n`` standard deviations of the largest; 0 keeps all.

    C. Tang et al., "Top-n sigma: not all logits are you need", 2024.
    """

    name: ClassVar[str] = "top_n_sigma"
    opcode: ClassVar[str | None] = "top_n_sigma"
    n: float = 1.0

    def __post_init__(self) -> None:
        number("top_n_sigma", self.n, 0, 1e6)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Compute mean and deviation of all candidates in float64."""
        if self.n == 0:
            return
        x = candidates.logits.astype(np.float64)
        mean = ordered_sum(x) / len(x)
        sigma = math.sqrt(ordered_sum((x - mean) * (x - mean)) / len(x))
        least = np.float32(float(candidates.logits.max()) - self.n * sigma)
        candidates.keep(candidates.logits >= least)

    def packed(self) -> tuple[float, ...]:
        """(n,)."""
        return (self.n,)
