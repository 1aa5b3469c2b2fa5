"""Builds a chain of steps, one method call for each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unladen.discover import Found, by_class, search
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import flag, items, reject, shown, token_ids
from unladen.sample.adaptive_p import AdaptiveP
from unladen.sample.base import Step
from unladen.sample.constrain import Make
from unladen.sample.constraint import ConstraintStep
from unladen.sample.dist import Dist, seed_of
from unladen.sample.dry import Dry
from unladen.sample.dynamic_temperature import DynamicTemperature
from unladen.sample.greedy import Greedy
from unladen.sample.logit_bias import LogitBias
from unladen.sample.min_p import MinP
from unladen.sample.mirostat import Mirostat, MirostatV2
from unladen.sample.penalties import Penalties
from unladen.sample.sampler import Sampler, explain
from unladen.sample.temperature import Temperature
from unladen.sample.top_k import TopK
from unladen.sample.top_n_sigma import TopNSigma
from unladen.sample.top_p import TopP
from unladen.sample.typical_p import TypicalP
from unladen.sample.xtc import Xtc


@functools.cache
def found() -> Found[type[Step]]:
    """Every step by its name, and the plug-ins that were left out."""
    return search("unladen.sample", "sample",
                  by_class(Step, lambda c: (str(c.name),)))


@functools.cache
def registry() -> Mapping[str, type[Step]]:
    """Every step by its name, found by scanning."""
    return found().named()


@dataclass(frozen=True)
class SamplerChain:
    """Steps in the order in which they run; each method returns a longer chain.

    ``SamplerChain().temp(0.8).top_p(0.95, 1).min_p(0.05, 1).penalties(64, 1.1, 0.0, 0.0).build()``
    """

    steps: tuple[Step, ...] = ()

    def step(self, step: Step) -> SamplerChain:
        """Append ``step``. Raises :class:`InvalidArgument` after a step that chooses."""
        if not isinstance(step, Step):
            reject("step", "a step, an object of a subclass of unladen.sample.Step", step,
                   "add(name, ...) takes the name of one")
        if self.steps and self.steps[-1].chooses:
            raise InvalidArgument(f"{step.name!r} comes after {self.steps[-1].name!r}, which "
                                  "chooses the token", hint="put it before")
        return SamplerChain((*self.steps, step))

    def add(self, name: str, *args: Any, **parameters: Any) -> SamplerChain:
        """Append the step called ``name``, a plug-in's too, built from the parameters."""
        if not isinstance(name, str):
            reject("name", "the name of a step", name, "step(...) takes a step of yours")
        if name not in registry():
            raise InvalidArgument(f"no sampler step is called {shown(name)}",
                                  hint="known: " + ", ".join(sorted(registry())))
        made = registry()[name]
        try:
            inspect.signature(made).bind(*args, **parameters)
        except TypeError as error:
            known = ", ".join(inspect.signature(made).parameters)
            raise InvalidArgument(f"step {name}: {error}", hint=f"it takes {known}") from None
        return self.step(made(*args, **parameters))

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

    def typical_p(self, p: float, min_keep: int = 1) -> SamplerChain:
        """Keep the tokens with a surprise nearest to the expected one, up to the probability ``p``
        in all."""
        return self.step(TypicalP(p, min_keep))

    def top_n_sigma(self, n: float) -> SamplerChain:
        """Keep the logits within ``n`` standard deviations of the largest."""
        return self.step(TopNSigma(n))

    def xtc(self, probability: float, threshold: float = 0.1, min_keep: int = 1) -> SamplerChain:
        """With ``probability``, drop all tokens of probability ``threshold`` or more except the
        least likely of these."""
        return self.step(Xtc(probability, threshold, min_keep))

    def temp_ext(self, temperature: float, delta: float, exponent: float = 1.0) -> SamplerChain:
        """Divide the logits by a temperature that follows their entropy."""
        return self.step(DynamicTemperature(temperature, delta, exponent))

    def dry(self, multiplier: float, base: float = 1.75, allowed_length: int = 2, last_n: int = -1,
            breakers: Iterable[Sequence[int]] = ()) -> SamplerChain:
        """Make tokens that continue a repetition less likely."""
        taken = tuple(tuple(token_ids(f"breakers[{i}]", each)) for i, each in enumerate(
            items("breakers", breakers, "lists of token ids")))
        return self.step(Dry(multiplier, base, allowed_length, last_n, taken))

    def constraint(self, make: Make) -> SamplerChain:
        """Keep what a constraint allows; ``make`` returns a new one for each sequence. See
        :class:`unladen.sample.Constraint`."""
        return self.step(ConstraintStep(make))

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
        """End with a draw; ``seed`` None or -1 takes fresh entropy."""
        return self.step(Dist(seed))

    def mirostat(self, tau: float = 5.0, eta: float = 0.1, m: int = 100) -> SamplerChain:
        """End with a draw that keeps the mean surprise near ``tau`` bits."""
        return self.step(Mirostat(tau, eta, m))

    def mirostat_v2(self, tau: float = 5.0, eta: float = 0.1) -> SamplerChain:
        """End with a draw that keeps the surprise below a moving bound near ``tau`` bits."""
        return self.step(MirostatV2(tau, eta))

    def adaptive_p(self, target: float, decay: float = 0.9) -> SamplerChain:
        """End with a draw that keeps the probability near ``target``."""
        return self.step(AdaptiveP(target, decay))

    def build(self, seed: int | None = None, *, use_native: bool = True) -> Sampler:
        """A sampler for one new sequence.

        A chain without a choosing step gets a draw at its end; an empty chain gets greedy. ``seed``
        overrides the seed given to :meth:`dist`. If both are None or -1, the seed is fresh entropy.
        ``use_native`` False runs every step by its NumPy definition.
        """
        chain, seed = self, seed_of(seed)
        flag("use_native", use_native)
        if not self.steps:
            chain = self.greedy()
        elif not self.steps[-1].chooses:
            chain = self.dist(seed)
        last = chain.steps[-1]
        if seed is None and isinstance(last, Dist):
            seed = last.seed
        return Sampler(chain.steps, seed, use_native=use_native)

    def explain(self) -> str:
        """One line for each step, with its parameters and how it runs."""
        return explain(self.steps)

    def __repr__(self) -> str:
        return " -> ".join(["SamplerChain", *(repr(step) for step in self.steps)])
