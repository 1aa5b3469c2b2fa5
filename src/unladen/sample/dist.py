"""dist: a seeded draw from the softmax of the candidates that are left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unladen.parameters.kinds import OrNone, Whole
from unladen.sample.base import Candidates, State, Step, draw, weights

SEED = OrNone(Whole(-1, 2**64 - 1))
"""Checks a seed."""


def seed_of(seed: object) -> int | None:
    """``seed`` as a number from 0 to 2**64 - 1, or None for None and -1. Raises
    :class:`InvalidArgument`."""
    value: int | None = SEED.of("seed", seed)
    return None if value == -1 else value


@dataclass(frozen=True)
class Dist(Step):
    """Draw a candidate with a probability proportional to exp(logit).

    ``seed`` (0 to 2**64 - 1) starts the sequence's generator; None and -1 take fresh entropy,
    readable as ``Sampler.seed``.
    """

    name: ClassVar[str] = "dist"
    opcode: ClassVar[str | None] = "dist"
    chooses: ClassVar[bool] = True
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))

    def apply(self, candidates: Candidates, state: State) -> None:
        """Set ``chosen``; see :func:`~unladen.sample.base.draw`."""
        candidates.chosen = int(candidates.ids[draw(weights(candidates.logits), state)])

    def packed(self) -> tuple[float, ...]:
        """Nothing: the seed is in the sequence's state."""
        return ()
