"""top_p: nucleus sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, number, weights, whole


@dataclass(frozen=True)
class TopP(Step):
    """Keep the fewest most likely candidates whose probabilities sum to at least ``p``.

    At least ``min_keep`` are kept; p = 1 keeps all. A. Holtzman et al., "The curious case of
    neural text degeneration", ICLR 2020.
    """

    name: ClassVar[str] = "top_p"
    opcode: ClassVar[str | None] = "top_p"
    p: float = 0.95
    min_keep: int = 1

    def __post_init__(self) -> None:
        number("top_p", self.p, 0, 1)
        whole("min_keep", self.min_keep, 0)

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return 0 if self.p == 1 else None

    def apply(self, candidates: Candidates, state: State) -> None:
        """Keep candidates by rank until their weights sum to p * total."""
        if self.p == 1:
            return
        ranks = candidates.ranks()
        by_rank = weights(candidates.logits)[np.argsort(ranks)]
        cumulative = np.cumsum(by_rank, dtype=np.uint64).astype(np.float64)
        n_kept = int(np.argmax(cumulative >= self.p * cumulative[-1])) + 1
        candidates.keep(ranks < max(n_kept, self.min_keep))

    def packed(self) -> tuple[float, ...]:
        """(p, min_keep)."""
        return (self.p, self.min_keep)
