"""Requests that go wrong at a given token, in every way known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from unladen import Model, SamplerChain
from unladen.engine import Request
from unladen.errors import InvalidArgument, ReentrantCall
from unladen.sample import BadLogits, Constraint, Sampler
from unladen.sample.base import Candidates, State, Step
from unladen.tokenizer import StopMatcher, StreamDecoder

DETERMINISTIC: Mapping[str, Any] = {"devices": ["cpu"], "kv_type": "f32", "n_threads": 1,
                                    "n_threads_batch": 1, "deterministic": True}
"""Options of a model whose logits don't depend on what else is in the step."""


def _count(state: State, name: str) -> int:
    n = state.memory.get(name, 0)
    assert isinstance(n, int)
    state.memory[name] = n + 1
    return n


@dataclass(frozen=True)
class Acts(Step):
    """A sampler step that does ``act`` to the candidates of token ``at``, and nothing to others."""

    name: ClassVar[str] = "acts"
    at: int
    act: Callable[[Candidates], object] = field(repr=False)

    def apply(self, candidates: Candidates, state: State) -> None:
        if _count(state, self.name) == self.at:
            self.act(candidates)


@dataclass(frozen=True)
class Picks(Step):
    """Chooses ``token`` as number ``at``, the likeliest before and after it."""

    name: ClassVar[str] = "picks"
    chooses: ClassVar[bool] = True
    at: int
    token: Any

    def apply(self, candidates: Candidates, state: State) -> None:
        is_at = _count(state, self.name) == self.at
        candidates.chosen = (self.token if is_at
                             else int(candidates.ids[np.argmax(candidates.logits)]))


class Trouble(RuntimeError):
    """The error that a caller's own code raises."""


def raises(error: BaseException | None = None) -> Callable[[object], object]:
    def act(_: object) -> object:
        raise Trouble("on purpose") if error is None else error
    return act


def leaves(**changed: Callable[[Candidates], Any]) -> Callable[[Candidates], object]:
    def act(candidates: Candidates) -> None:
        for name, make in changed.items():
            setattr(candidates, name, make(candidates))
    return act


def _with_nan(candidates: Candidates) -> Any:
    return np.where(np.arange(len(candidates.logits)) == 3, np.float32(np.nan), candidates.logits)


BROKEN: Mapping[str, Callable[[Candidates], object]] = {
    "double": leaves(logits=lambda c: c.logits.astype(np.float64)),
    "wide ids": leaves(ids=lambda c: c.ids.astype(np.int64)),
    "fewer logits": leaves(logits=lambda c: c.logits[:-1]),
    "fewer ids": leaves(ids=lambda c: c.ids[1:]),
    "NaN": leaves(logits=_with_nan),
    "twice the same": leaves(ids=lambda c: np.append(c.ids[:-1], c.ids[-2:-1])),
    "unordered": leaves(ids=lambda c: c.ids[::-1].copy()),
    "beyond": leaves(ids=lambda c: c.ids + np.int32(10**6)),
    "negative": leaves(ids=lambda c: c.ids - np.int32(10**6)),
    "a list": leaves(logits=lambda c: c.logits.tolist()),
    "nothing": leaves(ids=lambda c: None, logits=lambda c: None),
    "a table": leaves(ids=lambda c: c.ids[None], logits=lambda c: c.logits[None]),
}
NO_TOKENS: tuple[Any, ...] = (10**6, -5, 2**40, 2**31 - 1, 1.0, np.float32(3), None, "5", True,
                              np.bool_(True), [5], object())


class Constraining(Constraint):
    """Does ``act`` with the mask of token ``at``, or ``refuse`` when it is accepted; allows all
    else."""

    def __init__(self, at: int, act: Callable[[Any], Any] | None = None,
                 refuse: Callable[[Any], Any] | None = None) -> None:
        self.at, self.act, self.refuse = at, act, refuse

    def mask(self, out: Any) -> Any:
        if self.act is not None and len(self.tokens) == self.at:
            return self.act(out)
        out[:] = 2**32 - 1
        return None

    def accept(self, token: int) -> None:
        if self.refuse is not None and len(self.tokens) == self.at:
            self.refuse(token)
        super().accept(token)

    def rollback(self, n: int) -> None:
        super().rollback(n)


def _writes(made: Any) -> Callable[[Any], None]:
    def act(out: Any) -> None:
        out[:] = made
    return act


ANSWERS: Mapping[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "a row": (lambda out: np.ones(32 * len(out), bool), InvalidArgument),
    "itself": (lambda out: out, InvalidArgument), "True": (lambda out: True, InvalidArgument),
    "nothing": (lambda out: None, BadLogits), "too long": (_writes(np.ones(999)), ValueError),
    "a table": (_writes(np.ones((2, 2), np.uint32)), ValueError),
    "words": (_writes("x"), ValueError), "resized": (lambda out: out.resize(3), ValueError)}
"""What a constraint may do with a mask, and the error that it becomes."""


class Decoder(StreamDecoder):
    """Fails at token ``at``, or when it is flushed."""

    def __init__(self, model: Model, at: int) -> None:
        super().__init__(model.tokenizer)
        self._left = at

    def push(self, token_id: int) -> str:
        self._left -= 1
        if self._left < 0:
            raise Trouble("no text")
        return super().push(token_id)


class Flushing(StreamDecoder):
    """Fails when it is flushed."""

    def flush(self) -> str:
        raise Trouble("no end")


class Matcher(StopMatcher):
    """Fails at piece ``at``."""

    def __init__(self, at: int) -> None:
        super().__init__(["this is never said"])
        self._left = at

    def push(self, text: str) -> tuple[str, bool]:
        self._left -= 1
        if self._left < 0:
            raise Trouble("no match")
        return super().push(text)


class OwnSampler(Sampler):
    """Picks tokens by a way of its own, until it fails."""

    at = 0
    token: Any = None

    def sample(self, logits: Any) -> Any:
        self.at -= 1
        if self.at >= 0:
            return super().sample(logits)
        if self.token is None:
            raise Trouble("no sample")
        return self.token


def own_sampler(at: int, token: Any = None) -> OwnSampler:
    sampler = OwnSampler(SamplerChain().greedy().steps, 1)
    sampler.at, sampler.token = at, token
    return sampler


def a_request(model: Model, prompt: list[int], max_tokens: int, **changed: Any) -> Request:
    """A request for the engine with the test's own parts: ``sampler``, ``decoder``, ``matcher`` and
    ``n_logprobs``, unchecked."""
    sampler = changed.get("sampler") or SamplerChain().greedy().build()
    request = Request(prompt, sampler=sampler, max_tokens=max_tokens,
                      decoder=changed.get("decoder") or StreamDecoder(model.tokenizer))
    if "matcher" in changed:
        request._matcher = changed["matcher"]
    if "n_logprobs" in changed:
        request.n_logprobs, request.n_best = changed["n_logprobs"], None
    return request


Made = tuple[Request, type[BaseException]]
"""A request that isn't submitted yet, and the error that it is to end with."""


def _chain(act: Callable[[Candidates], object], at: int) -> Sampler:
    return SamplerChain().step(Acts(at, act)).greedy().build()


def _constrained(at: int, act: Callable[[Any], Any] | None = None,
                 refuse: Callable[[Any], Any] | None = None) -> Sampler:
    return SamplerChain().constraint(lambda: Constraining(at, act, refuse)).greedy().build()


def _constraints_answer(model: Model, prompt: list[int], max_tokens: int, at: int) -> Made:
    act, error = [*ANSWERS.values()][at % len(ANSWERS)]
    return a_request(model, prompt, max_tokens, sampler=_constrained(at, act)), error


Make = Callable[[Model, list[int], int, int], Made]
"""(model, prompt, max_tokens, the token at which it fails) -> what is made."""
WAYS: Mapping[str, Make] = {
    "step raises": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_chain(raises(), at)), Trouble),
    "step exits": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_chain(raises(SystemExit(3)), at)), SystemExit),
    "no token": lambda m, p, n, at: (
        a_request(m, p, n, sampler=SamplerChain().step(
            Picks(at, NO_TOKENS[at % len(NO_TOKENS)])).build()), InvalidArgument),
    "broken candidates": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_chain([*BROKEN.values()][at % len(BROKEN)], at)),
        InvalidArgument),
    "constraint raises": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_constrained(at, raises())), Trouble),
    "constraint refuses": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_constrained(at, refuse=raises())), Trouble),
    "constraint exits": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_constrained(at, raises(SystemExit(3)))), SystemExit),
    "constraint's answer": _constraints_answer,
    "own sampler raises": lambda m, p, n, at: (
        a_request(m, p, n, sampler=own_sampler(at)), Trouble),
    "own sampler's token": lambda m, p, n, at: (
        a_request(m, p, n, sampler=own_sampler(at, 10**6)), InvalidArgument),
    "decoder": lambda m, p, n, at: (a_request(m, p, n, decoder=Decoder(m, at)), Trouble),
    "flush": lambda m, p, n, at: (
        a_request(m, p, at + 1, decoder=Flushing(m.tokenizer)), Trouble),
    "stop matcher": lambda m, p, n, at: (a_request(m, p, n, matcher=Matcher(at)), Trouble),
    "log-probabilities": lambda m, p, n, at: (a_request(m, p, n, n_logprobs="x"), TypeError),
    "calls the model": lambda m, p, n, at: (
        a_request(m, p, n, sampler=_chain(lambda _: m.generate([5], max_tokens=1), at)),
        ReentrantCall),
}
