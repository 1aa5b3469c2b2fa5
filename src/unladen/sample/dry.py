"""dry: make the continuation of a repetition less likely."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unladen.parameters.kinds import items, token_ids
from unladen.sample.base import Candidates, State, Step, number, whole

LOG_LARGEST = math.log(float(np.finfo(np.float32).max))
"""Bound of a penalty's logarithm, so that the penalty stays finite in float32."""


@dataclass(frozen=True)
class Dry(Step):
    """Penalize a token that would lengthen a repetition of at least ``allowed_length`` tokens.

    If the last n tokens occurred before, the token that followed them there loses
    ``multiplier * base ** (n - allowed_length)``, for the largest such n. Only the ``last_n``
    latest tokens count (-1: all). No repetition extends over one of ``breakers``, which are
    sequences of token ids; a breaker of one token is never penalized. ``multiplier`` 0 turns the
    step off.
    P. E. Weidmann, "DRY: a modern repetition penalty", text-generation-webui pull request 5677,
    2024.
    """

    name: ClassVar[str] = "dry"
    opcode: ClassVar[str | None] = "dry"
    multiplier: float = 0.0
    base: float = 1.75
    allowed_length: int = 2
    last_n: int = -1
    breakers: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        number("dry_multiplier", self.multiplier, 0, 1e6)
        number("dry_base", self.base, 1, 1e6)
        whole("dry_allowed_length", self.allowed_length, 0)
        whole("dry_penalty_last_n", self.last_n, -1)
        for i, breaker in enumerate(items("breakers", self.breakers, "lists of token ids")):
            whole(f"the length of breakers[{i}]", len(token_ids(f"breakers[{i}]", breaker)), 1)

    def apply(self, candidates: Candidates, state: State) -> None:
        """The definition, token by token; the native twin takes linear time."""
        history = state.recent(self.last_n).tolist()
        if self.multiplier == 0 or len(history) <= self.allowed_length:
            return
        limit = self._limit(history)
        longest: dict[int, int] = {}
        for token, n in _repetitions(history, limit):
            if n >= self.allowed_length:
                longest[token] = max(longest.get(token, 0), n)
        single = {breaker[0] for breaker in self.breakers if len(breaker) == 1}
        for token in longest.keys() - single:
            candidates.logits[candidates.ids == token] -= self._penalty(longest[token])
        candidates.keep(candidates.logits > -np.inf)

    def _limit(self, history: list[int]) -> int:
        """How many tokens follow the last breaker."""
        ends = [at + len(breaker) for breaker in self.breakers for at in range(len(history))
                if tuple(history[at:at + len(breaker)]) == breaker]
        return len(history) - max(ends, default=0)

    def _penalty(self, n: int) -> np.float32:
        most = int(LOG_LARGEST / math.log(self.base)) if self.base > 1.000001 else 2**31
        power = math.pow(self.base, min(n - self.allowed_length, most))
        return np.float32(min(self.multiplier * power, float(np.finfo(np.float32).max)))

    def packed(self) -> tuple[float, ...]:
        """(multiplier, base, allowed_length, last_n), then the length and the ids of each
        breaker."""
        flat = (x for breaker in self.breakers for x in (len(breaker), *breaker))
        return (self.multiplier, self.base, self.allowed_length, self.last_n, *flat)


def _repetitions(history: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """(next token, length) for each earlier occurrence of the last tokens, at most ``limit`` of
    them."""
    for end in range(1, len(history)):
        n = 0
        while n < end and history[end - 1 - n] == history[-1 - n]:
            n += 1
        yield history[end], min(n, limit)
