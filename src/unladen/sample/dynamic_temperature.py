"""dynamic_temperature: a higher temperature where the model is less sure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import (
    Candidates,
    State,
    Step,
    below_max,
    log_total,
    number,
    ordered_sum,
    weights,
)
from unladen.sample.temperature import LOWEST, cool


@dataclass(frozen=True)
class DynamicTemperature(Step):
    """Divide every logit by a temperature between ``temperature`` - ``range`` and + ``range``.

    The place in this range is the candidates' entropy, divided by the largest entropy that so many
    candidates can have, to the power ``exponent``. Below a temperature of 1e-6 only the most likely
    candidate is kept.
    K. Zhang et al., "EDT: improving large language models' generation by entropy-based dynamic
    temperature sampling", 2024, in the form that llama.cpp documents.
    """

    name: ClassVar[str] = "dynamic_temperature"
    opcode: ClassVar[str | None] = "dynamic_temperature"
    temperature: float = 0.8
    range: float = 0.5
    exponent: float = 1.0

    def __post_init__(self) -> None:
        number("temperature", self.temperature, 0)
        number("dynatemp_range", self.range, 0)
        number("dynatemp_exponent", self.exponent, 0)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Entropy in float64; the temperature is then rounded to float32."""
        n = len(candidates.ids)
        if n < 2:
            return
        weight, below = weights(candidates.logits), below_max(candidates.logits)
        mean = ordered_sum(weight.astype(np.float64) * below) / float(weight.sum())
        share = min(max((log_total(weight) + mean) / math.log(n), 0.0), 1.0)
        low, high = max(0.0, self.temperature - self.range), self.temperature + self.range
        found = np.float32(low + (high - low) * math.pow(share, self.exponent))
        cool(candidates, found if found >= np.float32(LOWEST) else np.float32(0))

    def packed(self) -> tuple[float, ...]:
        """(temperature, range, exponent)."""
        return (self.temperature, self.range, self.exponent)
