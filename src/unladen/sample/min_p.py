"""min_p: drop tokens that are much less likely than the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, number, whole


@dataclass(frozen=True)
class MinP(Step):
    """Keep the candidates at least ``p`` times as likely as the most likely one.

    At least ``min_keep`` are kept; p = 0 keeps all. N. Nguyen et al., "Turning up the heat: min-p
    sampling for creative and coherent LLM outputs", ICLR 2025.
    """

    name: ClassVar[str] = "min_p"
    opcode: ClassVar[str | None] = "min_p"
    p: float = 0.05
    min_keep: int = 1

    def __post_init__(self) -> None:
        number("min_p", self.p, 0, 1)
        whole("min_keep", self.min_keep, 0)

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return 0 if self.p == 0 else None

    def apply(self, candidates: Candidates, state: State) -> None:
        """Keep logit >= max + ln p, which needs no softmax."""
        if self.p == 0:
            return
        which = candidates.logits >= candidates.logits.max() + np.float32(math.log(self.p))
        if np.count_nonzero(which) < self.min_keep:
            which = candidates.ranks() < self.min_keep
        candidates.keep(which)

    def packed(self) -> tuple[float, ...]:
        """(ln p, min_keep); ln 0 is -inf."""
        return (math.log(self.p) if self.p else -math.inf, self.min_keep)
