"""What is said in a session: messages, and the answers of the model."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Unpack

from unladen.api.prompts import check_tokens

if TYPE_CHECKING:
    from unladen.api.answering import Answering
    from unladen.api.chat import Chatting
    from unladen.api.chat_stream import ChatStream
    from unladen.api.generation import Wish
    from unladen.chat.completion import ChatCompletion
    from unladen.chat.conversation import Conversation, Piece
    from unladen.chat.deltas import Delta
    from unladen.chat.messages import Message
    from unladen.chat.prompt import Prompt
    from unladen.engine import Engine, Request
    from unladen.engine.session import Session as EngineSession
    from unladen.parameters.chat import ChatNames
    from unladen.sample import SamplerChain

    Said = str | Mapping[str, Any] | Message | Sequence[Mapping[str, Any] | Message] | None
    """What a caller says: a user's text, a message, several (such as the results of tools), or
    nothing."""


class Talking:
    """The part of a session that keeps messages. Threads may share it; one answer at a time."""

    _model: Chatting
    _engine: Engine
    _state: EngineSession
    _conversation: Conversation
    _tools: Sequence[Any] | None
    _defaults: Mapping[str, Any]

    def _set_up(self) -> None:
        self._lock = threading.RLock()
        self._written: _Written | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """A copy of all messages, oldest first, without those of an answer under way."""
        with self._lock:
            return deepcopy(self._settled().messages)

    def say(self, said: Said, *, tools: Sequence[Any] | None = None, tool_choice: Any = "auto",
            sampler: SamplerChain | None = None, **wanted: Unpack[ChatNames]) -> ChatCompletion:
        """Say something, and wait for the answer; both become messages of the session.

        * ``said``: a user's text, a message as :meth:`unladen.Model.chat` takes it, several of
          them, such as the results of tools, or None to let the model answer what is there.
        * ``tools``: what the model may call; None: the session's tools.
        * ``tool_choice``, ``sampler``, and everything else: as in :meth:`unladen.Model.chat`. The
          session's defaults hold for what isn't given.

        Tokens of the messages so far are computed only where they aren't in the cache. Where the
        messages have more tokens than fit, ``on_overflow`` shortens the prompt; the session keeps
        all messages, and ``usage.n_truncated`` counts the tokens that were left out.

        A call that raises leaves the messages as they were. An answer that ends early, by
        ``max_tokens`` or its deadline, is kept. Raises what :meth:`unladen.Model.chat` raises, and
        :class:`~unladen.errors.InvalidArgument` while another answer is under way.
        """
        return self._finished(
            self._begun_answer("say", said, tools, tool_choice, sampler, wanted))

    def regenerate(self, *, tools: Sequence[Any] | None = None, tool_choice: Any = "auto",
                   sampler: SamplerChain | None = None, **wanted: Unpack[ChatNames]
                   ) -> ChatCompletion:
        """Drop the assistant's messages at the end, if there are any, and let the model answer
        what is before them. The parameters are those of :meth:`say`. A call that raises leaves the
        messages as they were."""
        return self._finished(self._begun_answer(
            "regenerate", None, tools, tool_choice, sampler, wanted, again=True))

    def stream_say(self, said: Said, *, tools: Sequence[Any] | None = None,
                   tool_choice: Any = "auto", sampler: SamplerChain | None = None,
                   **wanted: Unpack[ChatNames]) -> ChatStream:
        """:meth:`say` piece by piece; see :meth:`unladen.Model.stream_chat`. What was written until
        the stream is closed is kept as the answer. A stream that raises, or is closed before the
        first token, leaves the messages as they were."""
        from unladen.api.chat_stream import ChatStream
        return ChatStream(self._engine, self._begun_answer("stream_say", said, tools, tool_choice,
                                                           sampler, wanted))

    def stream_regenerate(self, *, tools: Sequence[Any] | None = None, tool_choice: Any = "auto",
                          sampler: SamplerChain | None = None, **wanted: Unpack[ChatNames]
                          ) -> ChatStream:
        """:meth:`regenerate` piece by piece; see :meth:`stream_say`. The old answer is dropped when
        the new one has its first token."""
        from unladen.api.chat_stream import ChatStream
        return ChatStream(self._engine, self._begun_answer(
            "stream_regenerate", None, tools, tool_choice, sampler, wanted, again=True))

    async def asay(self, said: Said, *, tools: Sequence[Any] | None = None,
                   tool_choice: Any = "auto", sampler: SamplerChain | None = None,
                   **wanted: Unpack[ChatNames]) -> ChatCompletion:
        """:meth:`say` for coroutines. Cancelling the task cancels the answer, and the messages stay
        as they were."""
        answering = self._begun_answer("asay", said, tools, tool_choice, sampler, wanted)
        try:
            return await self._model._answered_later([answering])
        except BaseException:
            self._drop(answering)
            raise

    async def astream_say(self, said: Said, *, tools: Sequence[Any] | None = None,
                          tool_choice: Any = "auto", sampler: SamplerChain | None = None,
                          **wanted: Unpack[ChatNames]) -> AsyncIterator[Delta]:
        """:meth:`stream_say` for coroutines."""
        answering = self._begun_answer("astream_say", said, tools, tool_choice, sampler, wanted)
        async for delta in self._model._deltas(answering):
            yield delta

    def edit(self, index: int, content: Any) -> None:
        """Change a message, and drop those behind it. :meth:`regenerate` or :meth:`say` goes on
        from there, and computes only what comes after the change.

        * ``index``: of the message in :attr:`messages`; -1 is the last one.
        * ``content``: what the message says now: text, a list of parts, or a whole message.

        Raises :class:`~unladen.errors.InvalidArgument`, also while an answer is under way.
        """
        with self._lock:
            self._state.check_free()
            self._settled().edit(index, content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation to the file ``path``, in JSON: its messages, and the tokens of the
        last prompt and of the answers in it. A file that is there is replaced at once, when the new
        one is complete. Tools and defaults aren't written.

        Raises :class:`~unladen.errors.InvalidArgument` while an answer is under way and for
        messages that JSON can't hold, and :class:`OSError`.
        """
        from unladen.chat.saved import write
        with self._lock:
            self._state.check_free()
            kept = self._settled().copy()
        write(path, kept, self._model._fingerprint)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a conversation that :meth:`save` wrote; the session's own messages are
        dropped. A file of another model gives its messages; its tokens mean nothing here.

        Raises :class:`~unladen.errors.InvalidArgument` for a file that isn't a conversation, and
        while an answer is under way, and :class:`OSError`. The session is then as it was.
        """
        from unladen.chat.saved import read
        loaded = read(path, self._model.tokenizer, self._model._fingerprint)
        with self._lock:
            self._state.check_free()
            self._settled()
            self._conversation = loaded

    def _begun_answer(self, call: str, said: Said, tools: Sequence[Any] | None, tool_choice: Any,
                      sampler: SamplerChain | None, wanted: Mapping[str, Any], *,
                      again: bool = False) -> Answering:
        """The answer to ``said``, under way. ``again``: in place of the last answer."""
        with self._lock:
            self._state.check_free()
            conversation = self._settled()
            messages = conversation.with_said(said)
            while again and messages and messages[-1]["role"] == "assistant":
                messages.pop()
            asked: list[Piece] = []

            def submit(wish: Wish, prompt: Prompt, ends: frozenset[int]) -> Request:
                asked[:] = conversation.split(prompt)
                ids = [token for piece in asked for token in piece.ids]
                check_tokens("messages", ids)
                self._state.rewind(ids)
                return self._model._submitted(wish, ids, self._state, ends=ends)

            given = {**self._defaults, **wanted}
            answering, = self._model._answerings(
                call, messages, self._tools if tools is None else tools, tool_choice, 1, sampler,
                given, submit)
            self._written = _Written(answering, messages, asked, bool(given.get("continues")))
            return answering

    def _finished(self, answering: Answering) -> ChatCompletion:
        """The answer, once it is written."""
        try:
            return self._model._answered([answering])
        except BaseException:
            self._drop(answering)
            raise

    def _settled(self) -> Conversation:
        """The conversation, with the last answer in it if that has ended. The caller has the lock.
        """
        written = self._written
        if written is not None and written.answering.request.done:
            self._written = None
            request = written.answering.request
            has_text = len(request.tokens) > request.n_prompt
            if request.error is None and (has_text or request.stop_reason != "cancelled"):
                written.settle(self._conversation)
        return self._conversation

    def _drop(self, answering: Answering) -> None:
        """Forget the answer that raised."""
        with self._lock:
            if self._written is not None and self._written.answering is answering:
                self._written = None


class _Written:
    """The answer under way, and what it answers."""

    def __init__(self, answering: Answering, messages: list[dict[str, Any]],
                 asked: list[Piece], is_continued: bool) -> None:
        self.answering, self._messages, self._asked = answering, messages, asked
        self._is_continued = is_continued

    def settle(self, conversation: Conversation) -> None:
        """Put the answer into ``conversation``."""
        answer = self.answering.completion()
        conversation.answered(self._messages, answer.message, self._asked, answer.tokens,
                              is_continued=self._is_continued)
