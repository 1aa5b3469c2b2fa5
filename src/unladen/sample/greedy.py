"""greedy: the most likely token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import BadLogits, Candidates, State, Step


@dataclass(frozen=True)
class Greedy(Step):
    """Choose the candidate with the largest logit, the lowest id in a tie."""

    name: ClassVar[str] = "greedy"
    opcode: ClassVar[str | None] = "greedy"
    chooses: ClassVar[bool] = True

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return 1

    def apply(self, candidates: Candidates, state: State) -> None:
        """Set ``chosen`` without a draw."""
        best = int(np.argmax(candidates.logits))
        if np.isposinf(candidates.logits[best]):
            raise BadLogits("a step overflowed a logit to +inf")
        candidates.chosen = int(candidates.ids[best])

    def packed(self) -> tuple[float, ...]:
        """No parameters."""
        return ()
