"""adaptive_p: draws tokens whose probability stays near a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, draw, number, weights

WIDTH, PEAK, SHARPNESS = 0.3, 5.0, 10.0
"""The shape of the new logits: the difference of probabilities that counts as 1, the logit at the
target, and the slope far from the target."""


@dataclass(frozen=True)
class AdaptiveP(Step):
    """Prefer candidates with a probability near a target that follows earlier draws.

    A candidate of probability p gets the logit 5 - 10 x² / (1 + x), with x = |p - t| / 0.3. The
    target t is twice ``target`` less the mean of the probabilities drawn so far. In this mean the
    last draw weighs 1, and each draw before it ``decay`` times as much as the next. MrJackSpade,
    "adaptive-p", llama.cpp pull request 17927.
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
        """Compute in float64; the new logits are rounded to float32."""
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
