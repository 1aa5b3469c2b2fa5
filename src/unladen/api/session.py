"""A conversation with a model: each generation goes on after the last one. It can be forked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from unladen.api.closes import Closes
from unladen.api.prompts import only
from unladen.api.stream import Stream
from unladen.api.talking import Talking
from unladen.parameters.kinds import Text, token_ids

if TYPE_CHECKING:
    from unladen.api.chat import Chatting
    from unladen.api.generation import Wish
    from unladen.api.prompts import Prompt
    from unladen.chat.conversation import Conversation
    from unladen.engine import Engine, Request
    from unladen.engine.session import Session as EngineSession
    from unladen.parameters.sampling import RequestNames
    from unladen.sample import Sampler, SamplerChain
    from unladen.types import Completion

_TEXT = Text()


class Session(Closes, Talking):
    """A conversation: :meth:`unladen.Model.session` begins one.

    :meth:`say` adds messages and lets the model answer; :meth:`edit` goes back. :meth:`generate`
    and its siblings continue the tokens, without messages: use one or the other in a session.

    Each generation goes on from all that was said before, which stays in the cache, so that only
    new tokens are computed. Where other requests need the memory, the session gives it up, and its
    tokens are computed again when it goes on. One generation at a time continues a session; one
    that ends with an error leaves it as it was before. :meth:`close` it, or use it in a ``with``.
    """

    def __init__(self, model: Chatting, engine: Engine, state: EngineSession,
                 conversation: Conversation, tools: Sequence[Any] | None,
                 defaults: Mapping[str, Any]) -> None:
        self._model, self._engine, self._state = model, engine, state
        self._conversation, self._tools, self._defaults = conversation, tools, defaults
        self._set_up()

    @property
    def tokens(self) -> list[int]:
        """The ids of all tokens so far, given and written, without those of a generation under way.
        A token that ended a text isn't part of them; a stop string is."""
        return list(self._state.tokens)

    def append(self, prompt: Prompt) -> None:
        """Add ``prompt`` to the conversation: text, which continues the tokens so far, or token
        ids. The next generation computes it. Raises :class:`InvalidArgument`, also while a
        generation is under way and after :meth:`close`."""
        self._state.append(self._ids(prompt))

    def generate(self, prompt: Prompt | None = None, *, max_tokens: int | None = None,
                 stop: str | Sequence[str] | None = (), logprobs: int | None = None,
                 sampler: SamplerChain | Sampler | None = None, **sampling: Unpack[RequestNames]
                 ) -> Completion:
        """Add ``prompt``, if one is given, and let the model continue the conversation; see
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
        with self._lock:
            return Session(self._model, self._engine, self._engine.fork(self._state),
                           self._settled().copy(), self._tools, self._defaults)

    def close(self) -> None:
        """Give the memory back, and cancel a generation under way. The session can't be used any
        more."""
        if not self._state.is_closed:
            self._engine.end(self._state)

    def _begun(self, wish: Wish, prompt: Prompt | None) -> Request:
        ids = [] if prompt is None else self._ids(prompt)
        return self._model._submitted(wish, [*self._state.tokens, *ids], self._state)

    def _ids(self, prompt: Prompt) -> list[int]:
        """The token ids of ``prompt``, tokenized as a continuation of the tokens so far."""
        one = only("prompt", prompt)
        if not isinstance(one, str):
            return token_ids("prompt", one)
        return self._model.tokenizer.encode(_TEXT.of("prompt", one),
                                            continues=bool(self._state.tokens))

    def __repr__(self) -> str:
        state = ("closed" if self._state.is_closed else
                 "going on" if self._state.request is not None else "idle")
        return f"<Session: {len(self._state.tokens)} tokens, {state}>"
