"""Puts steps together: by hand (SamplerChain) or from the usual parameters (SamplingParams)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unladen.discover import classes
from unladen.errors import InvalidArgument
from unladen.sample.base import Step
from unladen.sample.dist import Dist
from unladen.sample.greedy import Greedy
from unladen.sample.logit_bias import LogitBias
from unladen.sample.min_p import MinP
from unladen.sample.penalties import Penalties
from unladen.sample.sampler import Sampler, explain
from unladen.sample.temperature import Temperature
from unladen.sample.top_k import TopK
from unladen.sample.top_p import TopP


@functools.cache
def registry() -> Mapping[str, type[Step]]:
    """Every step by its name, found by scanning."""
    return {c.name: c for c in classes("unladen.sample", "sample", Step)}


@dataclass(frozen=True)
class SamplerChain:
    """Steps in the order in which they run; each method returns a longer chain.

    ``SamplerChain().temp(0.8).top_p(0.95, 1).min_p(0.05, 1).penalties(64, 1.1, 0.0, 0.0).build()``
    """

    steps: tuple[Step, ...] = ()

    def step(self, step: Step) -> SamplerChain:
        """Append any step; raises :class:`InvalidArgument` after one that chooses."""
        if self.steps and self.steps[-1].chooses:
            raise InvalidArgument(f"{step.name!r} comes after {self.steps[-1].name!r}, which "
                                  "chooses the token", hint="put it before")
        return SamplerChain((*self.steps, step))

    def add(self, name: str, *args: Any, **parameters: Any) -> SamplerChain:
        """Append the step called ``name``, a plug-in's too, built from the parameters."""
        if name not in registry():
            raise InvalidArgument(f"no sampler step is called {name!r}",
                                  hint="known: " + ", ".join(sorted(registry())))
        return self.step(registry()[name](*args, **parameters))

    def temp(self, temperature: float) -> SamplerChain:
        """Divide the logits by ``temperature``; 0 keeps only the most likely token."""
        return self.step(Temperature(temperature))

    def top_k(self, k: int) -> SamplerChain:
        """Keep the ``k`` most likely tokens; 0 or less keeps all."""
        return self.step(TopK(k))

    def top_p(self, p: float, min_keep: int = 1) -> SamplerChain:
        """Keep the most likely tokens that together reach probability ``p``."""
        return self.step(TopP(p, min_keep))

    def min_p(self, p: float, min_keep: int = 1) -> SamplerChain:
        """Keep the tokens at least ``p`` times as likely as the most likely one."""
        return self.step(MinP(p, min_keep))

    def penalties(self, last_n: int = 64, repeat: float = 1.0, frequency: float = 0.0,
                  presence: float = 0.0) -> SamplerChain:
        """Make the tokens among the ``last_n`` latest less likely."""
        return self.step(Penalties(last_n, repeat, frequency, presence))

    def logit_bias(self, bias: Mapping[int, float]) -> SamplerChain:
        """Add to the logits of some tokens; -inf bans a token."""
        return self.step(LogitBias.of(bias))

    def greedy(self) -> SamplerChain:
        """End with the most likely token."""
        return self.step(Greedy())

    def dist(self, seed: int | None = None) -> SamplerChain:
        """End with a draw; ``seed`` None takes fresh entropy."""
        return self.step(Dist(seed))

    def build(self, seed: int | None = None, *, use_native: bool = True) -> Sampler:
        """A sampler for one new sequence.

        A chain that doesn't choose gets a draw at its end, an empty one the most likely token.
        ``seed`` overrides the one given to :meth:`dist`; None and none there: fresh entropy.
        """
        chain = self
        if not self.steps:
            chain = self.greedy()
        elif not self.steps[-1].chooses:
            chain = self.dist(seed)
        last = chain.steps[-1]
        if seed is not None:
            Dist(seed)  # validates
        elif isinstance(last, Dist):
            seed = last.seed
        return Sampler(chain.steps, seed, use_native=use_native)

    def explain(self) -> str:
        """One line for each step, with its parameters and how it runs."""
        return explain(self.steps)

    def __repr__(self) -> str:
        return " -> ".join(["SamplerChain", *(repr(step) for step in self.steps)])


@dataclass(frozen=True)
class SamplingParams:
    """The usual parameters; each is described at its step. Off are: ``temperature`` 0 (the most
    likely token, after penalties alone), ``top_k`` 0, ``top_p`` 1, ``min_p`` 0, ``repeat_penalty``
    1, the other penalties 0. Raises :class:`InvalidArgument` naming the parameter.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    min_keep: int = 1

    def __post_init__(self) -> None:
        self._sampling()  # its steps validate

    def chain(self) -> SamplerChain:
        """penalties, top_k, top_p, min_p, temperature, dist; or penalties, greedy."""
        return self._penalties().greedy() if self.temperature == 0 else self._sampling()

    def _penalties(self) -> SamplerChain:
        return SamplerChain().penalties(self.penalty_last_n, self.repeat_penalty,
                                        self.frequency_penalty, self.presence_penalty)

    def _sampling(self) -> SamplerChain:
        return (self._penalties().top_k(self.top_k).top_p(self.top_p, self.min_keep)
                .min_p(self.min_p, self.min_keep).temp(self.temperature).dist(self.seed))
