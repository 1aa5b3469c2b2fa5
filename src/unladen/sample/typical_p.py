"""typical_p: locally typical sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import (
    Candidates,
    State,
    Step,
    below_max,
    number,
    ordered_sum,
    weights,
    whole,
)


@dataclass(frozen=True)
class TypicalP(Step):
    """Keep the candidates with a surprise nearest to the expected one, until they have more than
    ``p`` of the probability.

    At least ``min_keep`` are kept; p = 1 keeps all. C. Meister et al., "Locally typical sampling",
    TACL 2023.
    """

    name: ClassVar[str] = "typical_p"
    opcode: ClassVar[str | None] = "typical_p"
    p: float = 1.0
    min_keep: int = 1

    def __post_init__(self) -> None:
        number("typical_p", self.p, 0, 1)
        whole("min_keep", self.min_keep, 0)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Rank by |surprise - entropy|. The normalizers cancel, so it is max - logit less the mean
        of that."""
        if self.p == 1:
            return
        weight, below = weights(candidates.logits), below_max(candidates.logits)
        total = float(weight.sum())
        shift = np.abs(below - ordered_sum(weight.astype(np.float64) * below) / total)
        order = np.argsort(shift, kind="stable")
        cumulative = np.cumsum(weight[order], dtype=np.uint64).astype(np.float64)
        above = cumulative > self.p * total
        n_kept = int(np.argmax(above)) + 1 if above.any() else len(order)
        which = np.zeros(len(order), bool)
        which[order[:max(n_kept, self.min_keep)]] = True
        candidates.keep(which)

    def packed(self) -> tuple[float, ...]:
        """(p, min_keep)."""
        return (self.p, self.min_keep)
