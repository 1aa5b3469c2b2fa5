"""temperature: sharpen or flatten the distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.errors import InvalidArgument
from unladen.sample.base import Candidates, State, Step, number

LOWEST = 1e-6
"""The least temperature except 0. Below it float32 logits of usual size could overflow."""


def cool(candidates: Candidates, temperature: np.float32) -> None:
    """Divide each logit by ``temperature`` in float32; 0 keeps only the most likely candidate."""
    if temperature == 0:
        candidates.keep(candidates.ranks() == 0)
    elif temperature != 1:
        with np.errstate(over="ignore"):  # the choosing step reports an overflow
            candidates.logits /= temperature
        candidates.keep(candidates.logits > -np.inf)


@dataclass(frozen=True)
class Temperature(Step):
    """Divide every logit by ``temperature``; 0 keeps only the most likely candidate.

    D. Ackley, G. Hinton, T. Sejnowski, "A learning algorithm for Boltzmann machines", 1985.
    """

    name: ClassVar[str] = "temperature"
    opcode: ClassVar[str | None] = "temperature"
    temperature: float = 0.8

    def __post_init__(self) -> None:
        number("temperature", self.temperature, 0)
        if 0 < self.temperature < LOWEST:
            raise InvalidArgument(f"temperature must be 0 or at least {LOWEST:g}, got "
                                  f"{self.temperature!r}", hint="0 takes the most likely token")

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return 1 if self.temperature == 0 else 0 if self.temperature == 1 else None

    def apply(self, candidates: Candidates, state: State) -> None:
        """See :func:`cool`."""
        cool(candidates, np.float32(self.temperature))

    def packed(self) -> tuple[float, ...]:
        """(temperature,)."""
        return (self.temperature,)
