"""The usual parameters of sampling, and the chain that they make."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from unladen.errors import InvalidArgument
from unladen.sample.chain import SamplerChain

log = logging.getLogger("unladen")

ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc",
         "temperature")
"""The steps of a chain before the step that chooses, in their default order."""
BREAKERS = ("\n", ":", '"', "*")
"""Default texts that end a repetition for :class:`Dry`."""


@dataclass(frozen=True)
class SamplingParams:
    """The usual parameters; each is described at its step.

    These values turn a step off: ``dynatemp_range`` 0, ``top_k`` 0, ``top_p`` 1, ``min_p`` 0,
    ``typical_p`` 1, ``top_n_sigma`` 0, ``xtc_probability`` 0, ``repeat_penalty`` 1, the other
    penalties 0, ``dry_multiplier`` 0, ``mirostat`` 0, ``adaptive_target`` below 0.
    ``temperature`` 0 takes the most likely token; of the other steps only penalties then run.
    ``mirostat`` 1 or 2 is the version, which replaces the steps that drop candidates. ``order``
    names the steps in their order; ``logit_bias`` comes before them. ``ignore_eos`` bans the tokens
    that end a text. Raises :class:`InvalidArgument`, which names the parameter.
    """

    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: Sequence[str] = BREAKERS
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    logit_bias: Mapping[int, float] | None = None
    ignore_eos: bool = False
    seed: int | None = None
    min_keep: int = 1
    order: Sequence[str] = ORDER

    def __post_init__(self) -> None:
        changed = {name: value for name, value in vars(self).items()
                   if value is not SamplingParams.__dataclass_fields__[name].default}
        if changed:
            from unladen.parameters.sampling import SAMPLING
            for name, value in SAMPLING.taken(changed).items():
                if (name, value) == ("seed", -1):
                    value = None
                object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        unknown = [name for name in self.order if name not in ORDER]
        if unknown or len(set(self.order)) < len(self.order):
            raise InvalidArgument(f"order must name steps, each at most once, got "
                                  f"{', '.join(self.order)}", hint=f"use {', '.join(ORDER)}")
        for name in ORDER:
            self._add(SamplerChain(), name, ())  # checks parameters, even if the step is off
        SamplerChain().temp_ext(self.temperature, self.dynatemp_range, self.dynatemp_exponent)
        SamplerChain().mirostat(self.mirostat_tau, self.mirostat_eta)
        self._end(SamplerChain().logit_bias(self.logit_bias or {}))
        SamplerChain().dist(self.seed)

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in vars(self).items()
                 if value != SamplingParams.__dataclass_fields__[name].default)
        return f"SamplingParams({', '.join(given)})"

    def chain(self, *, breakers: Sequence[Sequence[int]] = (), eog_ids: Sequence[int] = (),
              suppress_ids: Sequence[int] = ()) -> SamplerChain:
        """The chain of these parameters.

        The three arguments depend on the vocabulary. ``breakers`` are the token sequences of
        ``dry_sequence_breakers``, ``eog_ids`` the tokens that ``ignore_eos`` bans, ``suppress_ids``
        those that are always banned.
        """
        chain = SamplerChain()
        bias = dict(self.logit_bias or {})
        if self.ignore_eos:
            bias |= dict.fromkeys(eog_ids, -math.inf)
        bias |= dict.fromkeys(suppress_ids, -math.inf)
        if bias:
            chain = chain.logit_bias(bias)
        order: Sequence[str] = self.order
        if self.temperature == 0:
            order = [name for name in order if name in ("penalties", "dry")]
        elif self.mirostat:
            order = [name for name in order if name in ("penalties", "dry", "temperature")]
        for name in order:
            chain = self._add(chain, name, breakers)
        return chain.greedy() if self.temperature == 0 else self._end(chain)

    def _add(self, chain: SamplerChain, name: str, breakers: Sequence[Sequence[int]]
             ) -> SamplerChain:
        """``chain`` with the step called ``name``, unless that is off."""
        on = {"dry": self.dry_multiplier, "top_n_sigma": self.top_n_sigma,
              "typical_p": self.typical_p != 1, "xtc": self.xtc_probability}.get(name, True)
        keep = self.min_keep
        make: Mapping[str, Callable[[SamplerChain], SamplerChain]] = {
            "penalties": lambda c: c.penalties(self.penalty_last_n, self.repeat_penalty,
                                               self.frequency_penalty, self.presence_penalty),
            "dry": lambda c: c.dry(self.dry_multiplier, self.dry_base, self.dry_allowed_length,
                                   self.dry_penalty_last_n, breakers),
            "top_n_sigma": lambda c: c.top_n_sigma(self.top_n_sigma),
            "top_k": lambda c: c.top_k(self.top_k),
            "typical_p": lambda c: c.typical_p(self.typical_p, keep),
            "top_p": lambda c: c.top_p(self.top_p, keep),
            "min_p": lambda c: c.min_p(self.min_p, keep),
            "xtc": lambda c: c.xtc(self.xtc_probability, self.xtc_threshold, keep),
            "temperature": self._temperature}
        longer = make[name](chain)
        return longer if on else chain

    def _temperature(self, chain: SamplerChain) -> SamplerChain:
        if self.dynatemp_range:
            return chain.temp_ext(self.temperature, self.dynatemp_range, self.dynatemp_exponent)
        return chain.temp(self.temperature)

    def _end(self, chain: SamplerChain) -> SamplerChain:
        if self.mirostat == 1:
            return chain.mirostat(self.mirostat_tau, self.mirostat_eta)
        if self.mirostat == 2:
            return chain.mirostat_v2(self.mirostat_tau, self.mirostat_eta)
        if self.adaptive_target >= 0:
            return chain.adaptive_p(self.adaptive_target, self.adaptive_decay)
        return chain.dist(self.seed)


KEYS: Mapping[str, str] = MappingProxyType({
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold",
    "penalty_last_n": "penalty_last_n", "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat", "mirostat_tau": "mirostat_tau", "mirostat_eta": "mirostat_eta"})
"""The keys under ``general.sampling`` of a GGUF file, and the parameter that each one sets."""
_SHORT = MappingProxyType({"typ_p": "typical_p", "typical": "typical_p", "temp": "temperature"})
"""Other names of steps that ``general.sampling.sequence`` may have."""


def defaults(metadata: Mapping[str, object]) -> Mapping[str, Any]:
    """The parameters that a file recommends in ``general.sampling.*``. Invalid ones are left out,
    each with a warning."""
    found: dict[str, Any] = {}
    for key, name in KEYS.items():
        value = metadata.get(f"general.sampling.{key}")
        if value is not None:
            _take(found, f"general.sampling.{key}", name, value)
    sequence = metadata.get("general.sampling.sequence")
    if isinstance(sequence, str):
        names = [_SHORT.get(name, name) for name in sequence.split(";") if name]
        _take(found, "general.sampling.sequence", "order", tuple(names))
    return found


def _take(found: dict[str, Any], key: str, name: str, value: object) -> None:
    try:
        SamplingParams(**{name: value})  # type: ignore[arg-type]  # it validates
    except InvalidArgument as error:
        log.warning("%s is left out: %s", key, error.message)
    else:
        found[name] = value
