"""xtc: exclude top choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, number, weights, whole


@dataclass(frozen=True)
class Xtc(Step):
    """With ``probability``, drop all candidates of probability ``threshold`` or more except the
    least likely of these.

    Nothing is dropped where fewer than ``min_keep`` would be left, or if the threshold is over 0.5.
    P. E. Weidmann, "Exclude Top Choices (XTC)", text-generation-webui pull request 6335, 2024.
    """

    name: ClassVar[str] = "xtc"
    opcode: ClassVar[str | None] = "xtc"
    probability: float = 0.0
    threshold: float = 0.1
    min_keep: int = 1

    def __post_init__(self) -> None:
        number("xtc_probability", self.probability, 0, 1)
        number("xtc_threshold", self.threshold, 0, 1)
        whole("min_keep", self.min_keep, 0)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Draw one random number, but only where something could be dropped."""
        n = len(candidates.ids)
        if self.probability == 0 or self.threshold > 0.5 or n < 2:
            return
        if (state.random() >> 11) * 2.0**-53 >= self.probability:
            return
        weight = weights(candidates.logits)
        above = np.count_nonzero(weight.astype(np.float64)
                                 >= self.threshold * float(weight.sum()))
        if above > 1 and n - (above - 1) >= self.min_keep:
            candidates.keep(candidates.ranks() >= above - 1)

    def packed(self) -> tuple[float, ...]:
        """(probability, threshold, min_keep)."""
        return (self.probability, self.threshold, self.min_keep)
