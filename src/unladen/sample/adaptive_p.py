"""adaptive_p: draws whose probability keeps near a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, draw, number, weights

WIDTH, PEAK, SHARPNESS = 0.3, 5.0, 10.0
"""Shape of the new logits: the distance of probabilities that counts as 1, the logit at the
target, and the slope far from it."""


@dataclass(frozen=True)
class AdaptiveP(Step):
    """Prefer candidates of a probability near ``target``, moved against what was drawn before.

    With p a candidate's probability, t the moved target and x = |p - t| / 0.3 its logit becomes
    5 - 10 x² / (1 + x). t is twice the target less the mean of the probabilities drawn so far, the
    last weighing 1, each before it ``decay`` times as much. MrJackSpade, "adaptive-p", llama.cpp
    pull request 17927.
    """

    name: ClassVar[str] = "adaptive_p"
    opcode: ClassVar[str | None] = "adaptive_p"
    chooses: ClassVar[bool] = True
    target: float = 0.5
    decay: float = 0.9

    def __post_init__(self) -> None:
        number("adaptive_target", self.target, 0, 1)
        number("adaptive_decay", self.decay, 0, 0.99)

    def apply(self, candidates: Candidates, state: State) -> None:
        """All in float64 but the new logits."""
        before = state.memory.get(self.name, (0.0, 0.0))
        assert isinstance(before, tuple)
        drawn, count = before
        weight = weights(candidates.logits)
        p = weight.astype(np.float64) / float(weight.sum())
        target = self.target if count == 0 else 2 * self.target - drawn / count
        x = np.abs(p - min(max(target, 0.0), 1.0)) / WIDTH
        candidates.logits = (PEAK - SHARPNESS * x * x / (1 + x)).astype(np.float32)
        at = draw(weights(candidates.logits), state)
        candidates.chosen = int(candidates.ids[at])
        state.memory[self.name] = (float(p[at]) + self.decay * drawn, 1 + self.decay * count)

    def packed(self) -> tuple[float, ...]:
        """(target, decay)."""
        return (self.target, self.decay)
