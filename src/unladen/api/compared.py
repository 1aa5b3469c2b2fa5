"""Compares the logits of two tokens, one of which is the answer."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from unladen.engine.ranking import probability
from unladen.sample import Candidates, State, Step


@dataclasses.dataclass(frozen=True)
class Compared(Step):
    """Chooses the likelier one of the tokens ``yes`` and ``no``, and adds the probability of
    ``yes`` to ``found``."""

    name: ClassVar[str] = "compared"
    chooses: ClassVar[bool] = True

    yes: int
    no: int
    found: list[float]

    def apply(self, candidates: Candidates, state: State) -> None:
        """See :class:`Step`. A token that isn't a candidate has no chance."""
        yes, no = (candidates.logits[candidates.ids == token] for token in (self.yes, self.no))
        logits = [float(each[0]) if len(each) else -np.inf for each in (yes, no)]
        if max(logits) == -np.inf:
            logits = [0.0, 0.0]
        self.found.append(probability(*logits))
        candidates.chosen = self.yes if logits[0] >= logits[1] else self.no
