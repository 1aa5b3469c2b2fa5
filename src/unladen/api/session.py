"""A conversation with a model, which goes on where it was and can be forked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from unladen.api.prompts import only
from unladen.api.stream import Stream
from unladen.parameters.kinds import Text, token_ids

if TYPE_CHECKING:
    from unladen.api.generation import Generation, Wish
    from unladen.api.prompts import Prompt
    from unladen.engine import Engine, Request
    from unladen.engine.session import Session as EngineSession
    from unladen.parameters.sampling import RequestNames
    from unladen.sample import Sampler, SamplerChain
    from unladen.types import Completion

_TEXT = Text()


class Session:
    """A conversation: :meth:`unladen.Model.session` begins one.

    Each generation goes on from all that was said before, which stays in the cache, so that only
    new tokens are computed. Where others need the memory, the session gives it up and is computed
    again when it goes on. One generation at a time continues a session; one that ends with an error
    leaves it as it was before. :meth:`close` it, or use it in a ``with``.
    """

    def __init__(self, model: Generation, engine: Engine, state: EngineSession) -> None:
        self._model, self._engine, self._state = model, engine, state

    @property
    def tokens(self) -> list[int]:
        """The ids of all tokens so far, given and written, without those of a generation under
        way. An end token isn't part of them, a stop string is."""
        return list(self._state.tokens)

    def append(self, prompt: Prompt) -> None:
        """Go on with ``prompt``: text, which continues what is there, or token ids. It is computed
        by the next generation. Raises :class:`InvalidArgument`, also while a generation is under
        way and after :meth:`close`."""
        self._state.append(self._ids(prompt))

    def generate(self, prompt: Prompt | None = None, *, max_tokens: int | None = None,
                 stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                 sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
                 ) -> Completion:
        """Go on with ``prompt``, if one is given, and with what the model writes then; see
        :meth:`unladen.Model.generate`. ``usage.n_prompt`` counts all tokens of the session before
        this generation, ``usage.n_cached`` those that were in the cache."""
        wish = self._model._wish("generate", max_tokens, stop, logprobs, sampler, sampling)
        return self._model._finished(self._begun(wish, prompt))

    def stream(self, prompt: Prompt | None = None, *, max_tokens: int | None = None,
               stop: str | Sequence[str] | None = (), logprobs: int | None = None,
               sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
               ) -> Stream:
        """:meth:`generate` piece by piece; see :meth:`unladen.Model.stream`. What was written until
        the stream is closed belongs to the session."""
        wish = self._model._wish("stream", max_tokens, stop, logprobs, sampler, sampling)
        return Stream(self._engine, self._begun(wish, prompt))

    async def agenerate(self, prompt: Prompt | None = None, *, max_tokens: int | None = None,
                        stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                        sampler: SamplerChain | Sampler | None = None,
                        **sampling: Unpack[RequestNames]) -> Completion:
        """:meth:`generate` for coroutines."""
        wish = self._model._wish("agenerate", max_tokens, stop, logprobs, sampler, sampling)
        return await self._model._awaited(self._begun(wish, prompt))

    async def astream(self, prompt: Prompt | None = None, *, max_tokens: int | None = None,
                      stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                      sampler: SamplerChain | Sampler | None = None,
                      **sampling: Unpack[RequestNames]) -> AsyncIterator[str]:
        """:meth:`stream` for coroutines."""
        wish = self._model._wish("astream", max_tokens, stop, logprobs, sampler, sampling)
        async for piece in self._model._advance(self._begun(wish, prompt)):
            yield piece

    def fork(self) -> Session:
        """A second session with the same past, which costs no memory until one of the two goes on.
        Raises :class:`InvalidArgument` while a generation is under way and after :meth:`close`."""
        return Session(self._model, self._engine, self._engine.fork(self._state))

    def close(self) -> None:
        """Give the memory back, and cancel a generation under way; the session can't go on."""
        if not self._state.is_closed:
            self._engine.end(self._state)

    def _begun(self, wish: Wish, prompt: Prompt | None) -> Request:
        ids = [] if prompt is None else self._ids(prompt)
        return self._model._submitted(wish, [*self._state.tokens, *ids], self._state)

    def _ids(self, prompt: Prompt) -> list[int]:
        """The token ids of ``prompt`` after what is there."""
        one = only("prompt", prompt)
        if not isinstance(one, str):
            return token_ids("prompt", one)
        return self._model.tokenizer.encode(_TEXT.of("prompt", one),
                                            continues=bool(self._state.tokens))

    def __repr__(self) -> str:
        state = ("closed" if self._state.is_closed else
                 "going on" if self._state.request is not None else "idle")
        return f"<Session: {len(self._state.tokens)} tokens, {state}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
