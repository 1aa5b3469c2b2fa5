"""dist: a seeded draw from the softmax of what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unladen.sample.base import Candidates, State, Step, draw, weights, whole


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
        """Set ``chosen``; see :func:`~unladen.sample.base.draw`."""
        candidates.chosen = int(candidates.ids[draw(weights(candidates.logits), state)])

    def packed(self) -> tuple[float, ...]:
        """The seed belongs to the sequence, not to the step."""
        return ()
