"""dist: a seeded draw from the softmax of what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, weights, whole


@dataclass(frozen=True)
class Dist(Step):
    """Draw a candidate with a probability proportional to exp(logit).

    ``seed`` (0 to 2**64 - 1) starts the sequence's generator; None takes fresh entropy, readable
    as ``Sampler.seed``.
    """

    name: ClassVar[str] = "dist"
    opcode: ClassVar[str | None] = "dist"
    chooses: ClassVar[bool] = True
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            whole("seed", self.seed, 0, 2**64 - 1)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Set ``chosen`` by inverting the cumulative weights at one 64-bit random number.

        The number u becomes the point u * total / 2**64 (D. Lemire, "Fast random integer
        generation in an interval", 2019), which is off by less than 2**-64 in probability.
        """
        cumulative = np.cumsum(weights(candidates.logits), dtype=np.uint64)
        point = state.random() * int(cumulative[-1]) >> 64
        index = np.searchsorted(cumulative, np.uint64(point), side="right")
        candidates.chosen = int(candidates.ids[index])

    def packed(self) -> tuple[float, ...]:
        """The seed belongs to the sequence, not to the step."""
        return ()
