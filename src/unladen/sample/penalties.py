"""penalties: make recent tokens less likely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.sample.base import Candidates, State, Step, number, whole


@dataclass(frozen=True)
class Penalties(Step):
    """Penalize the tokens among the last ``last_n`` accepted ones (0: off, -1: all).

    For a token that occurs there ``count`` > 0 times: first a positive logit is divided by
    ``repeat`` and any other multiplied by it (N. Keskar et al., "CTRL", 2019, with the sign fix
    that llama.cpp documents); then ``frequency * count + presence`` is subtracted (the OpenAI
    API's definition).
    """

    name: ClassVar[str] = "penalties"
    opcode: ClassVar[str | None] = "penalties"
    last_n: int = 64
    repeat: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0

    def __post_init__(self) -> None:
        whole("penalty_last_n", self.last_n, -1)
        number("repeat_penalty", self.repeat, 1e-6, 1e6)
        number("frequency_penalty", self.frequency, -1e6, 1e6)
        number("presence_penalty", self.presence, -1e6, 1e6)

    @property
    def n_best(self) -> int | None:
        """See :class:`Step`."""
        return 0 if (self.repeat, self.frequency, self.presence) == (1, 0, 0) else None

    def apply(self, candidates: Candidates, state: State) -> None:
        """Change the logits of candidates that occurred."""
        tokens, counts = np.unique(state.recent(self.last_n), return_counts=True)
        present = np.isin(tokens, candidates.ids)
        at = np.searchsorted(candidates.ids, tokens[present])
        logits, repeat = candidates.logits[at], np.float32(self.repeat)
        with np.errstate(over="ignore"):  # the choosing step reports an overflow
            logits = np.where(logits > 0, logits / repeat, logits * repeat)
        amount = counts[present].astype(np.float32) * np.float32(self.frequency)
        candidates.logits[at] = logits - (amount + np.float32(self.presence))
        candidates.keep(candidates.logits > -np.inf)

    def packed(self) -> tuple[float, ...]:
        """(last_n, repeat, frequency, presence)."""
        return (self.last_n, self.repeat, self.frequency, self.presence)
