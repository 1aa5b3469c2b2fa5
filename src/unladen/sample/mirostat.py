"""mirostat: draws tokens so that their surprise stays near a target."""

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
    draw,
    log_total,
    number,
    weights,
    whole,
)


@dataclass(frozen=True)
class Mirostat(Step):
    """Choose so that the mean surprise comes near ``tau`` bits, at the learning rate ``eta``.

    Version 1 keeps the k most likely candidates. k follows from the slope of the ``m`` best and
    from the number of candidates, which stands for the size of the vocabulary. S. Basu et al.,
    "Mirostat: a neural text decoding algorithm that directly controls perplexity", ICLR 2021.
    """

    name: ClassVar[str] = "mirostat"
    opcode: ClassVar[str | None] = "mirostat"
    chooses: ClassVar[bool] = True
    tau: float = 5.0
    eta: float = 0.1
    m: int = 100

    def __post_init__(self) -> None:
        number("mirostat_tau", self.tau, 0, 1e6)
        number("mirostat_eta", self.eta, 0, 1e6)
        whole("mirostat_m", self.m, 2)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Drop candidates, draw one, and move the bound by its surprise."""
        mu = _mu(state, self.name, self.tau)
        n_kept = self._n_kept(-np.sort(-candidates.logits)[:self.m].astype(np.float64),
                              len(candidates.ids), mu)
        candidates.keep(candidates.ranks() < n_kept)
        _choose(candidates, state, self.name, mu, self.tau, self.eta)

    def _n_kept(self, best: np.ndarray[tuple[int], np.dtype[np.float64]], n: int, mu: float) -> int:
        slope = squares = 0.0
        for i in range(len(best) - 1):
            t = math.log((i + 2) / (i + 1))
            slope += t * float(best[i] - best[i + 1])
            squares += t * t
        try:
            s_hat = slope / squares
            epsilon = s_hat - 1
            k = math.pow(epsilon * math.pow(2, mu) / (1 - math.pow(n, -epsilon)), 1 / s_hat)
        except (ZeroDivisionError, OverflowError, ValueError):
            return n  # the slope gives no finite k
        return max(int(k), 1) if k < n else n

    def packed(self) -> tuple[float, ...]:
        """(tau, eta, m)."""
        return (self.tau, self.eta, self.m)


@dataclass(frozen=True)
class MirostatV2(Step):
    """As :class:`Mirostat`, but drop the candidates more surprising than a moving bound.

    Version 2 of the same authors, from their reference code.
    """

    name: ClassVar[str] = "mirostat_v2"
    opcode: ClassVar[str | None] = "mirostat_v2"
    chooses: ClassVar[bool] = True
    tau: float = 5.0
    eta: float = 0.1

    def __post_init__(self) -> None:
        number("mirostat_tau", self.tau, 0, 1e6)
        number("mirostat_eta", self.eta, 0, 1e6)

    def apply(self, candidates: Candidates, state: State) -> None:
        """Compute surprises in nats. The most likely candidate always stays."""
        mu = _mu(state, self.name, self.tau)
        surprise = below_max(candidates.logits) + log_total(weights(candidates.logits))
        which = surprise <= mu * math.log(2)
        candidates.keep(which if which.any() else candidates.ranks() == 0)
        _choose(candidates, state, self.name, mu, self.tau, self.eta)

    def packed(self) -> tuple[float, ...]:
        """(tau, eta)."""
        return (self.tau, self.eta)


def _mu(state: State, name: str, tau: float) -> float:
    mu = state.memory.get(name, 2 * tau)
    assert isinstance(mu, float)
    return mu


def _choose(candidates: Candidates, state: State, name: str, mu: float, tau: float, eta: float
            ) -> None:
    weight = weights(candidates.logits)
    at = draw(weight, state)
    surprise = (float(below_max(candidates.logits)[at]) + log_total(weight)) / math.log(2)
    candidates.chosen = int(candidates.ids[at])
    state.memory[name] = mu - eta * (surprise - tau)
