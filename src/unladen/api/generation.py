"""Continues prompts: to completions at once or piece by piece, in threads and in coroutines."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Unpack, overload

from unladen.api.prompts import check_tokens, ids_of, only, split
from unladen.api.stream import Stream, result_of
from unladen.api.together import Together
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api.prompts import Prompt, Prompts
    from unladen.api.session import Session
    from unladen.engine import Engine, Request
    from unladen.engine.session import Session as EngineSession
    from unladen.parameters.sampling import RequestNames
    from unladen.sample import Sampler, SamplerChain
    from unladen.tokenizer import Tokenizer
    from unladen.types import Completion


class Generation:
    """What a model that continues texts can be asked to write."""

    tokenizer: Tokenizer
    sampling_defaults: Mapping[str, Any]
    _breakers: Callable[[tuple[str, ...]], Sequence[Sequence[int]]]
    _stepper: Executor

    @property
    def engine(self) -> Engine:
        """The loop."""
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
        too. How to choose tokens, and when: the names of
        :class:`~unladen.parameters.sampling.RequestNames` (``temperature=0.0``, ``top_k=40``,
        ``seed=1``, ``priority=1``, ``deadline=30.0``, ...), or a ``sampler`` of your own; a
        :class:`Sampler` serves one prompt, a :class:`SamplerChain` any number.

        Waiting requests of the highest ``priority`` are begun first, and among equal ones those
        that came first. A text that isn't complete after ``deadline`` seconds ends there, with the
        ``stop_reason`` "deadline". An interrupt ends the generation; the model
        stays usable. Raises :class:`InvalidArgument` before anything runs,
        :class:`ContextOverflow`, :class:`QueueFull`, and :class:`DeadlineExceeded` where not a
        token was written in time.
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

    def session(self, prompt: Prompt | None = None) -> Session:
        """A conversation that begins with ``prompt``, text or token ids, and goes on with each
        generation: :class:`~unladen.api.session.Session`. Raises :class:`InvalidArgument`."""
        from unladen.api.session import Session
        from unladen.engine.session import Session as EngineSession
        session = Session(self, self.engine, EngineSession())
        if prompt is not None:
            session.append(prompt)
        return session

    def _wish(self, call: str, max_tokens: object, stop: object, logprobs: object, sampler: object,
              sampling: Mapping[str, Any]) -> Wish:
        """All that is the same for every prompt, checked."""
        given = {name: value for name, value, usual in (
            ("max_tokens", max_tokens, None), ("stop", stop, ()), ("logprobs", logprobs, None))
            if value is not usual}
        wanted = dict(sampling)
        if given or wanted:
            from unladen.parameters.sampling import generation
            wanted = generation(call).taken({**given, **sampling})
        most, ends, n = (wanted.pop(name, None) for name in ("max_tokens", "stop", "logprobs"))
        priority, seconds = wanted.pop("priority", 0), wanted.pop("deadline", None)
        return Wish(sys.maxsize if most is None else most,
                    (ends,) if isinstance(ends, str) else tuple(ends or ()), n,
                    self._sampler_maker(sampler, wanted), priority,
                    None if seconds is None else time.monotonic() + seconds)

    def _sampler_maker(self, sampler: object, sampling: Mapping[str, Any]
                       ) -> Callable[[], Sampler]:
        from unladen.sample import Sampler, SamplerChain, SamplingParams
        if sampler is not None and sampling:
            raise InvalidArgument(f"both a sampler and {', '.join(sampling)} are given",
                                  hint="use one way or the other")
        if isinstance(sampler, SamplerChain):
            return sampler.build
        if sampler is not None and not isinstance(sampler, Sampler):
            raise InvalidArgument(
                "sampler must be a SamplerChain or what its build() makes, got "
                f"{type(sampler).__name__}", hint="SamplerChain().step(...) takes a step of yours")
        if sampler is not None:
            return _Once(sampler)
        params = SamplingParams(**{**self.sampling_defaults, **sampling})
        breakers = (self._breakers(tuple(params.dry_sequence_breakers))
                    if params.dry_multiplier else ())
        chain = params.chain(breakers=breakers, eog_ids=sorted(self.tokenizer.eog_ids),
                             suppress_ids=sorted(self.tokenizer.suppress_ids))
        return lambda: chain.build(params.seed)

    def _queued(self, wish: Wish, prompt: object) -> Request:
        """A request under way for one prompt."""
        return self._submitted(wish, ids_of("prompt", prompt, self.tokenizer))

    def _submitted(self, wish: Wish, ids: Sequence[int], session: EngineSession | None = None
                   ) -> Request:
        """A request under way for the token ids of one prompt, of ``session`` if they are its."""
        engine = self.engine
        check_tokens("prompt", ids)
        request = self._request(wish, ids, session)
        if not request.done:
            engine.submit(request)
        elif session is not None:
            session.begin(request)
        return request

    def _request(self, wish: Wish, ids: Sequence[int], session: EngineSession | None = None
                 ) -> Request:
        from unladen.engine import Request
        from unladen.sample import LogitBias
        from unladen.tokenizer import StreamDecoder
        sampler = wish.make_sampler()
        for step in sampler.steps:
            if isinstance(step, LogitBias):
                self.tokenizer.warn_unknown("logit_bias", [token for token, _ in step.bias])
        sampler.accept_prompt(ids)
        request = Request(
            [*ids], sampler=sampler, eog_ids=self.tokenizer.eog_ids, stop=wish.stop,
            decoder=StreamDecoder(self.tokenizer), n_logprobs=wish.n_logprobs,
            max_tokens=wish.max_tokens, priority=wish.priority, deadline=wish.deadline,
            session=session)
        if wish.max_tokens == 0:
            request.finish("length")
        return request

    def _together(self, wish: Wish, prompts: Sequence[object]) -> Together[Completion]:
        engine, ids = self.engine, self._all_ids("prompt", prompts)
        if len(ids) > 1 and isinstance(wish.make_sampler, _Once):
            raise InvalidArgument("sampler must be a SamplerChain for several prompts, got a "
                                  "Sampler", hint="a Sampler has the state of one sequence")
        return Together(engine, len(ids), lambda i: self._request(wish, ids[i]), result_of,
                        "prompt")

    def _all_ids(self, name: str, prompts: Sequence[object]) -> Sequence[Sequence[int]]:
        """The ids of each prompt, in 4 bytes each."""
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


class Wish:
    """What is wanted of every prompt of a call. ``deadline``: a reading of
    :func:`time.monotonic`."""

    def __init__(self, max_tokens: int, stop: Sequence[str], n_logprobs: int | None,
                 make_sampler: Callable[[], Sampler], priority: int, deadline: float | None
                 ) -> None:
        self.max_tokens, self.stop, self.n_logprobs = max_tokens, stop, n_logprobs
        self.make_sampler, self.priority, self.deadline = make_sampler, priority, deadline


class _Once:
    """Gives the sampler that a caller brought."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(self) -> Sampler:
        return self._sampler
