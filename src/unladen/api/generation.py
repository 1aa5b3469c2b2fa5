"""Continues prompts: as whole completions or piece by piece, for threads and for coroutines."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack, overload

from unladen.api.prompts import blame, check_tokens, ids_of, only, split
from unladen.api.stream import Stream, result_of
from unladen.api.together import Together
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api.guided import LazyGuide
    from unladen.api.prompts import Prompt, Prompts
    from unladen.engine import Engine, Request
    from unladen.engine.session import Session as EngineSession
    from unladen.parameters.sampling import RequestNames
    from unladen.sample import Sampler, SamplerChain
    from unladen.sample.constrain import Make
    from unladen.tokenizer import Tokenizer
    from unladen.types import Completion


USUAL_NAMES = ("max_tokens", "stop", "reasoning")
"""Parameters of answers that a model's settings may have beside those of choosing tokens."""


class Generation:
    """The methods of a model that write text."""

    _usual: Mapping[str, Any] = MappingProxyType({})
    """Values of ``USUAL_NAMES`` where the caller gives none."""

    tokenizer: Tokenizer
    sampling_defaults: Mapping[str, Any]
    _breakers: Callable[[tuple[str, ...]], Sequence[Sequence[int]]]
    _guide: LazyGuide
    _stepper: Executor

    @property
    def engine(self) -> Engine:
        """The engine that runs the requests."""
        raise NotImplementedError

    @overload
    def generate(self, prompt: Prompt, *, max_tokens: int | None = None,
                 stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                 sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
                 ) -> Completion: ...

    @overload
    def generate(self, prompt: Prompts, *, max_tokens: int | None = None,
                 stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                 sampler: SamplerChain | None = None, **sampling: Unpack[RequestNames]
                 ) -> list[Completion]: ...

    def generate(self, prompt: Prompt | Prompts, *, max_tokens: int | None = None,
                 stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                 sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
                 ) -> Completion | list[Completion]:
        """Continue ``prompt`` (text, or token ids taken as they are) and wait for all of it.

        Several prompts in a list are computed together and give a list of completions, each as if
        it was alone; an empty list gives an empty one. Where one of them fails, its error names
        ``prompt[i]`` and the others are cancelled.

        ``max_tokens`` None: to the end of the context. ``stop`` strings end the text and are not
        part of it. ``logprobs``: 0 for those of the chosen tokens, n for that many alternatives
        too. The other parameters say how tokens are chosen, and when the request runs: those of
        :class:`~unladen.parameters.sampling.RequestNames` (``temperature=0.0``, ``top_k=40``,
        ``seed=1``, ``priority=1``, ``deadline=30.0``, ...), or a ``sampler`` of your own; a
        :class:`Sampler` serves one prompt, a :class:`SamplerChain` any number. ``response_format``
        is the form of the answer: a JSON schema, a Python type, :func:`unladen.grammar`, ...

        Waiting requests of the highest ``priority`` are begun first, and among equal ones those
        that came first. A text that isn't complete after ``deadline`` seconds ends at that point,
        with the ``stop_reason`` "deadline". An interrupt ends the generation; the model stays
        usable. Raises :class:`InvalidArgument` before anything runs, :class:`ContextOverflow`,
        :class:`QueueFull`, and :class:`DeadlineExceeded` where no token was written in time.
        """
        wish = self._wish("generate", max_tokens, stop, logprobs, sampler, sampling)
        prompts, several = split("prompt", prompt)
        if several:
            return self._together(wish, prompts).run()
        return self._finished(self._queued(wish, prompts[0]))

    def stream(self, prompt: Prompt, *, max_tokens: int | None = None,
               stop: str | Sequence[str] | None = (), logprobs: int | None = None,
               sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
               ) -> Stream:
        """:meth:`generate` for one prompt, piece by piece: iterate for text; ``.result`` is the
        completion."""
        wish = self._wish("stream", max_tokens, stop, logprobs, sampler, sampling)
        return Stream(self.engine, self._queued(wish, only("prompt", prompt)))

    @overload
    async def agenerate(self, prompt: Prompt, *, max_tokens: int | None = None,
                        stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                        sampler: SamplerChain | Sampler | None = None,
                        **sampling: Unpack[RequestNames]) -> Completion: ...

    @overload
    async def agenerate(self, prompt: Prompts, *, max_tokens: int | None = None,
                        stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                        sampler: SamplerChain | None = None,
                        **sampling: Unpack[RequestNames]) -> list[Completion]: ...

    async def agenerate(self, prompt: Prompt | Prompts, *, max_tokens: int | None = None,
                        stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                        sampler: SamplerChain | Sampler | None = None,
                        **sampling: Unpack[RequestNames]) -> Completion | list[Completion]:
        """:meth:`generate` for coroutines: those that run together make one batch. Cancelling the
        task cancels the generation."""
        wish = self._wish("agenerate", max_tokens, stop, logprobs, sampler, sampling)
        prompts, several = split("prompt", prompt)
        if several:
            return await self._run_together(self._together(wish, prompts))
        return await self._awaited(self._queued(wish, prompts[0]))

    async def astream(self, prompt: Prompt, *, max_tokens: int | None = None,
                      stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                      sampler: SamplerChain | Sampler | None = None,
                      **sampling: Unpack[RequestNames]) -> AsyncIterator[str]:
        """:meth:`stream` for coroutines."""
        wish = self._wish("astream", max_tokens, stop, logprobs, sampler, sampling)
        async for piece in self._advance(self._queued(wish, only("prompt", prompt))):
            yield piece

    def _wish(self, call: str, max_tokens: object, stop: object, logprobs: object, sampler: object,
              sampling: Mapping[str, Any]) -> Wish:
        """The wishes that are the same for every prompt, checked."""
        given = {name: value for name, value, usual in (
            ("max_tokens", max_tokens, None), ("stop", stop, ()), ("logprobs", logprobs, None))
            if value is not usual}
        wanted = dict(sampling)
        if given or wanted:
            from unladen.parameters.sampling import generation
            wanted = generation(call).taken({**given, **sampling})
        most, ends, n = (wanted.pop(name, None) for name in ("max_tokens", "stop", "logprobs"))
        most = self._usual.get("max_tokens") if most is None else most
        ends = self._usual.get("stop") if ends is None else ends
        priority, seconds = wanted.pop("priority", 0), wanted.pop("deadline", None)
        constraint = self._constraint(wanted.pop("response_format", None))
        return Wish(sys.maxsize if most is None else most,
                    (ends,) if isinstance(ends, str) else tuple(ends or ()), n,
                    self._sampler_maker(sampler, wanted, constraint), priority,
                    None if seconds is None else time.monotonic() + seconds)

    def _constraint(self, form: object) -> Make | None:
        """Makes the constraints of answers of ``form``; None for answers of any form."""
        if form is None:
            return None
        from unladen.sample.constrain.form import language_of
        try:
            language = language_of(form)
            return None if language is None else language.make(self._guide.get())
        except InvalidArgument as error:
            blame(error, "response_format")
            raise

    def _sampler_maker(self, sampler: object, sampling: Mapping[str, Any],
                       constraint: Make | None = None) -> Callable[[], Sampler]:
        from unladen.sample import Sampler, SamplerChain, SamplingParams
        if sampler is not None and sampling:
            raise InvalidArgument(f"both a sampler and {', '.join(sampling)} are given",
                                  hint="give a sampler or these names")
        if isinstance(sampler, SamplerChain):
            return _constrained(sampler, constraint).build
        if sampler is not None and not isinstance(sampler, Sampler):
            raise InvalidArgument(
                "sampler must be a SamplerChain or what its build() makes, got "
                f"{type(sampler).__name__}", hint="SamplerChain().step(...) takes a step of yours")
        if sampler is not None and constraint is not None:
            raise InvalidArgument("sampler must be a SamplerChain where response_format is given, "
                                  "got a Sampler", hint="a Sampler has its steps already")
        if sampler is not None:
            return _GivenSampler(sampler)
        params = SamplingParams(**{**self.sampling_defaults, **sampling})
        breakers = (self._breakers(tuple(params.dry_sequence_breakers))
                    if params.dry_multiplier else ())
        chain = params.chain(breakers=breakers, eog_ids=sorted(self.tokenizer.eog_ids),
                             suppress_ids=sorted(self.tokenizer.suppress_ids))
        chain = _constrained(chain, constraint)
        return lambda: chain.build(params.seed)

    def _queued(self, wish: Wish, prompt: object) -> Request:
        """The submitted request for one prompt."""
        return self._submitted(wish, ids_of("prompt", prompt, self.tokenizer))

    def _submitted(self, wish: Wish, ids: Sequence[int], session: EngineSession | None = None, *,
                   ends: frozenset[int] | None = None) -> Request:
        """The submitted request for the token ids of one prompt. ``session``: the conversation that
        they continue; None without one."""
        engine = self.engine
        check_tokens("prompt", ids)
        request = self._request(wish, ids, session, ends)
        if not request.done:
            engine.submit(request)
        elif session is not None:
            session.begin(request)
        return request

    def _request(self, wish: Wish, ids: Sequence[int], session: EngineSession | None = None,
                 ends: frozenset[int] | None = None) -> Request:
        """A request that isn't under way yet. ``ends``: the tokens that end an answer in a chat,
        whose text has the names of other control tokens; None: a plain text."""
        from unladen.engine import Request
        from unladen.sample import LogitBias
        from unladen.tokenizer import StreamDecoder
        sampler = wish.make_sampler()
        for step in sampler.steps:
            if isinstance(step, LogitBias):
                self.tokenizer.warn_unknown("logit_bias", [token for token, _ in step.bias])
        sampler.accept_prompt(ids)
        request = Request(
            [*ids], sampler=sampler, eog_ids=self.tokenizer.eog_ids if ends is None else ends,
            stop=wish.stop, decoder=StreamDecoder(self.tokenizer, special=ends is not None),
            n_logprobs=wish.n_logprobs, max_tokens=wish.max_tokens, priority=wish.priority,
            deadline=wish.deadline, session=session)
        if wish.max_tokens == 0:
            request.finish("length")
        return request

    def _together(self, wish: Wish, prompts: Sequence[object]) -> Together[Completion]:
        engine, ids = self.engine, self._all_ids("prompt", prompts)
        if len(ids) > 1 and isinstance(wish.make_sampler, _GivenSampler):
            raise InvalidArgument("sampler must be a SamplerChain for several prompts, got a "
                                  "Sampler", hint="a Sampler has the state of one sequence")
        return Together(engine, len(ids), lambda i: self._request(wish, ids[i]), result_of,
                        "prompt")

    def _all_ids(self, name: str, prompts: Sequence[object]) -> Sequence[Sequence[int]]:
        """The token ids of each prompt, as int32 to save memory."""
        from array import array
        found = []
        for i, prompt in enumerate(prompts):
            ids = ids_of(f"{name}[{i}]", prompt, self.tokenizer)
            check_tokens(f"{name}[{i}]", ids)
            found.append(array("i", ids))
        return found

    async def _run_together(self, together: Together[Completion]) -> list[Completion]:
        import asyncio
        loop = asyncio.get_running_loop()
        try:
            while (oldest := together.refill()) is not None:
                await loop.run_in_executor(self._stepper, self.engine.advance, oldest)
                together.collect()
        finally:
            together.stop()
        return together.results

    async def _advance(self, request: Request) -> AsyncIterator[str]:
        import asyncio
        loop = asyncio.get_running_loop()
        try:
            while not request.done:
                await loop.run_in_executor(self._stepper, self.engine.advance, request)
                while request.pieces:
                    yield request.pieces.popleft()
            result_of(request)
        finally:
            if not request.done:
                self.engine.cancel(request)

    async def _awaited(self, request: Request) -> Completion:
        async for _ in self._advance(request):
            pass
        return result_of(request)

    def _finished(self, request: Request) -> Completion:
        if not request.done:
            self.engine.finish(request)
        return result_of(request)


def _constrained(chain: SamplerChain, make: Make | None) -> SamplerChain:
    """``chain`` with a constraint before all else, so that later steps see few candidates."""
    if make is None:
        return chain
    from unladen.sample import SamplerChain
    return SamplerChain((SamplerChain().constraint(make).steps[0], *chain.steps))


class Wish:
    """The wishes of a call, for every prompt. ``deadline``: a reading of :func:`time.monotonic`."""

    def __init__(self, max_tokens: int, stop: Sequence[str], n_logprobs: int | None,
                 make_sampler: Callable[[], Sampler], priority: int, deadline: float | None
                 ) -> None:
        self.max_tokens, self.stop, self.n_logprobs = max_tokens, stop, n_logprobs
        self.make_sampler, self.priority, self.deadline = make_sampler, priority, deadline


class _GivenSampler:
    """Gives the caller's own sampler, which serves one prompt."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(self) -> Sampler:
        return self._sampler
