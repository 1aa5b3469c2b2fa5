"""Answers in conversations: at once or piece by piece, in threads and in coroutines."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from unladen.api.generation import Generation
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Whole, reject

if TYPE_CHECKING:
    from unladen.api.answering import Answering
    from unladen.api.chat_stream import ChatStream
    from unladen.api.generation import Wish
    from unladen.api.prompts import Prompt as RawPrompt
    from unladen.api.session import Session
    from unladen.chat.completion import ChatCompletion
    from unladen.chat.deltas import Delta
    from unladen.chat.prompt import Prompt
    from unladen.chat.reading import Messages
    from unladen.chat.turn import ChatFormat, Turn
    from unladen.engine import Request
    from unladen.hub.preset import Preset
    from unladen.parameters.chat import ChatNames
    from unladen.sample import SamplerChain

    Submit = Callable[[Wish, Prompt, frozenset[int]], Request]
    """Submits the request for a prompt; the last argument has the tokens that end its answer."""

OWN_NAMES = ("reasoning", "reasoning_tokens", "reasoning_seconds", "on_overflow", "continues",
             "template", "template_variables", "documents")
"""The parameters that a generation doesn't have."""
ANSWER_ENDS = ("max_tokens", "stop")
"""Parameters of answers that end them."""
SYSTEM = ("system", "developer")
"""The roles of messages that say how to answer."""
KEPT_FORMATS = 8
"""Templates of which a model keeps what was learned about them."""
ANSWER_SHARE = 4
"""The part of the context, one in this many, that a conversation leaves for an answer of no known
length."""
_COUNT = Whole(1)


class Chatting(Generation):
    """What a model that answers can be asked."""

    _formats: dict[str, ChatFormat]
    _preset: Preset | None = None

    @property
    def metadata(self) -> Mapping[str, object]:
        """The file's metadata."""
        raise NotImplementedError

    @property
    def context_size(self) -> int:
        """Tokens at most in one sequence."""
        raise NotImplementedError

    def chat(self, messages: Messages, *, tools: Sequence[Any] | None = None,
             tool_choice: Any = "auto", n: int = 1, sampler: SamplerChain | None = None,
             **wanted: Unpack[ChatNames]) -> ChatCompletion:
        """Answer a conversation, and wait for all of the answer.

        * ``messages``: dicts with ``role`` and ``content`` as OpenAI's clients send them, or
          messages that a model wrote. They aren't changed.
        * ``tools``: what the model may call: functions, whose names, types and docstrings it sees,
          or dicts as OpenAI's clients send them. The caller runs them.
        * ``tool_choice``: "auto", "none", "required", or the name of the tool to call.
        * ``n``: answers to make; all are in ``choices``. They share the prompt's cache.
        * ``response_format``: the form of the answer: a JSON schema, a Python type, or what
          :func:`unladen.grammar`, ``regex`` or ``lark`` return. ``parsed`` is its value.
        * ``reasoning``: whether a model that can shall think first, or "low", "medium", "high".
          None: as the template says.
        * ``reasoning_tokens``, ``reasoning_seconds``: after these the end of the reasoning is
          forced, and the answer begins.
        * ``on_overflow``: what happens to a conversation that the context doesn't hold: "error";
          "shift" drops the oldest turns; "drop_middle" keeps the first one; or a function of the
          messages, their tokens and the most that fit, which returns fewer.
        * ``continues``: the last message is the beginning of the answer.
        * ``template``: text in Jinja or in Go's language, or a name of
          :data:`unladen.chat.formats`, in place of the model's. ``template_variables``: more
          variables of the template. ``documents``: for templates that answer from documents.
        * ``max_tokens``, ``stop``, ``logprobs``, ``sampler``, and everything else as in
          :meth:`generate`.

        Raises :class:`InvalidArgument`, :class:`TemplateError`, :class:`ContextOverflow`, and what
        :meth:`generate` raises.
        """
        return self._answered(
            self._answerings("chat", messages, tools, tool_choice, n, sampler, wanted))

    def stream_chat(self, messages: Messages, *, tools: Sequence[Any] | None = None,
                    tool_choice: Any = "auto", sampler: SamplerChain | None = None,
                    **wanted: Unpack[ChatNames]) -> ChatStream:
        """:meth:`chat` piece by piece: iterate for what happens, or over ``.text()`` for the text;
        ``.result`` is the answer."""
        from unladen.api.chat_stream import ChatStream
        answers = self._answerings("stream_chat", messages, tools, tool_choice, 1, sampler, wanted)
        return ChatStream(self.engine, answers[0])

    async def achat(self, messages: Messages, *, tools: Sequence[Any] | None = None,
                    tool_choice: Any = "auto", n: int = 1, sampler: SamplerChain | None = None,
                    **wanted: Unpack[ChatNames]) -> ChatCompletion:
        """:meth:`chat` for coroutines: those that run together make one batch. Cancelling the task
        cancels the answer."""
        return await self._answered_later(
            self._answerings("achat", messages, tools, tool_choice, n, sampler, wanted))

    async def astream_chat(self, messages: Messages, *, tools: Sequence[Any] | None = None,
                           tool_choice: Any = "auto", sampler: SamplerChain | None = None,
                           **wanted: Unpack[ChatNames]) -> AsyncIterator[Delta]:
        """:meth:`stream_chat` for coroutines."""
        answering, = self._answerings("astream_chat", messages, tools, tool_choice, 1, sampler,
                                      wanted)
        async for delta in self._deltas(answering):
            yield delta

    def session(self, prompt: RawPrompt | None = None, *, messages: Messages = (),
                tools: Sequence[Any] | None = None, system: str | None = None,
                **defaults: Unpack[ChatNames]) -> Session:
        """A conversation that stays in the cache: :class:`~unladen.api.session.Session`.

        * ``prompt``: text or token ids with which it begins, for ``generate`` and ``append``.
        * ``messages``: messages with which it begins, for ``say``; as in :meth:`chat`.
        * ``tools``: what the model may call in every answer; as in :meth:`chat`.
        * ``system``: the text of a system message before them.
        * ``temperature=0.0`` and so on: defaults for ``say``; the parameters of :meth:`chat`.

        Raises :class:`InvalidArgument`.
        """
        from unladen.api.session import Session
        from unladen.chat.conversation import Conversation
        from unladen.chat.functions import read_tools
        from unladen.engine.session import Session as EngineSession
        from unladen.parameters.chat import chat
        if prompt is not None and (messages or system is not None):
            raise InvalidArgument("both a prompt and messages are given",
                                  hint="generate() goes on from a prompt, say() from messages")
        if not (system is None or isinstance(system, str)):
            reject("system", "a text or None", system)
        begun = Conversation(self.tokenizer, messages)
        if system is not None:
            begun.messages.insert(0, {"role": "system", "content": system})
        session = Session(self, self.engine, EngineSession(), begun, read_tools(tools),
                          chat("session").taken(defaults))
        if prompt is not None:
            session.append(prompt)
        return session

    def _answered(self, answers: Sequence[Answering]) -> ChatCompletion:
        """The answers, once all are written."""
        try:
            for answering in answers:
                self.engine.finish(answering.request)
        except BaseException:
            self._cancel(answers)
            raise
        return _together(answers)

    async def _answered_later(self, answers: Sequence[Answering]) -> ChatCompletion:
        """:meth:`_answered` for coroutines."""
        try:
            for answering in answers:
                async for piece in self._advance(answering.request):
                    answering.take(piece)
        finally:
            self._cancel(answers)
        return _together(answers)

    async def _deltas(self, answering: Answering) -> AsyncIterator[Delta]:
        """What happens while an answer is written."""
        async for piece in self._advance(answering.request):
            for delta in answering.take(piece):
                yield delta
        for delta in answering.read():
            yield delta

    def _answerings(self, call: str, messages: Messages, tools: Sequence[Any] | None,
                    tool_choice: Any, n: int, sampler: SamplerChain | None,
                    given: Mapping[str, Any], submit: Submit | None = None, *,
                    parallel: bool = True) -> list[Answering]:
        """``n`` answers under way. ``submit``: submits their requests; None: by themselves.
        ``parallel``: whether an answer may have several calls."""
        from unladen.api.answering import Answering
        from unladen.chat.wanted import ReasoningBudget, language_of_answer
        from unladen.parameters.chat import chat
        from unladen.sample import SamplerChain
        from unladen.sample.constrain.form import language_of
        count = _COUNT.of("n", n)
        if not (tool_choice is None or isinstance(tool_choice, str | Mapping)):
            reject("tool_choice", 'auto, none, required or the name of a tool', tool_choice)
        if not (sampler is None or isinstance(sampler, SamplerChain)):
            reject("sampler", "a SamplerChain", sampler, "SamplerChain().step(...) takes a step")
        usual = {name: value for name, value in self._usual.items() if name in ANSWER_ENDS}
        wanted = {**usual, **chat(call).taken({
            name: value for name, value in given.items()
            if not (name in usual and value in (None, ()))})}
        own = _own(wanted)
        budget = ReasoningBudget(own["reasoning_tokens"], own["reasoning_seconds"])
        written, turn = self._turn(messages, tools, tool_choice, own,
                                   self._most_tokens(wanted.get("max_tokens")))
        answer = language_of(wanted.pop("response_format", None))
        form, notes = language_of_answer(turn.form, turn.prompt.text, answer, turn.tools,
                                         tool_choice, budget, parallel=parallel)
        turn = turn.noted(notes)
        ends, seed = written.end_ids(has_tools=bool(turn.tools)), wanted.get(
            "seed", self.sampling_defaults.get("seed"))
        answers: list[Answering] = []
        try:
            for i in range(count):
                if seed is not None and seed >= 0:
                    wanted["seed"] = seed + i
                wish = self._wish(call, wanted.get("max_tokens"), wanted.get("stop", ()),
                                  wanted.get("logprobs"), sampler,
                                  {**{name: value for name, value in wanted.items()
                                      if name not in ("max_tokens", "stop", "logprobs")},
                                   "response_format": form})
                request = (self._submitted(wish, turn.prompt.ids, ends=ends) if submit is None
                           else submit(wish, turn.prompt, ends))
                answers.append(Answering(request, turn, answer))
        except BaseException:
            self._cancel(answers)
            raise
        return answers

    def _turn(self, messages: Messages, tools: Sequence[Any] | None, tool_choice: Any,
              own: Mapping[str, Any], n_most: int) -> tuple[ChatFormat, Turn]:
        """How ``messages`` are written, and the turn after them, of at most ``n_most`` tokens.
        ``own``: the parameters of ``OWN_NAMES``."""
        written = self._format(own["template"], tools, own["documents"])
        reasoning = own["reasoning"] if own["reasoning"] is not None else (
            self._usual.get("reasoning"))
        return written, written.turn(
            self._begun(messages), tools, tool_choice, n_most, own["on_overflow"],
            continues=own["continues"], documents=own["documents"],
            variables={**_thinking(reasoning), **(own["template_variables"] or {})})

    def _begun(self, messages: Messages) -> Messages:
        """``messages`` as the model's settings begin every conversation: system messages, those of
        the settings where there are none, then the settings' messages, then the rest."""
        preset = self._preset
        if preset is None or not (preset.system or preset.messages):
            return messages
        from unladen.chat.reading import read_messages
        said = read_messages(messages)
        if not said:
            return said
        has_system = any(each["role"] in SYSTEM for each in said)
        n = next((i for i, each in enumerate(said) if each["role"] not in SYSTEM), len(said))
        system = said[:n] if has_system or not preset.system else [
            {"role": "system", "content": preset.system}]
        return [*system, *map(dict, preset.messages), *said[n:]]

    @property
    def has_template(self) -> bool:
        """Whether the model's file or its settings have a chat template. Raises
        :class:`TemplateError` for one in the file that isn't a text."""
        from unladen.chat.named import ChatTemplates
        has_own = self._preset is not None and bool(self._preset.template)
        return has_own or bool(ChatTemplates.from_metadata(self.metadata).names)

    def _prompt(self, messages: Messages, tools: Sequence[Any] | None, tool_choice: Any,
                given: Mapping[str, Any]) -> Prompt:
        """The whole prompt of ``messages``, also where the context doesn't hold it."""
        from unladen.parameters.chat import chat
        own = _own(chat("chat").taken(given))
        return self._turn(messages, tools, tool_choice, own, sys.maxsize)[1].prompt

    def _format(self, template: str | None, tools: Sequence[Any] | None,
                documents: Sequence[Any] | None) -> ChatFormat:
        """How conversations are written: by ``template``, or else by the file's."""
        from unladen.chat.formats import registry
        from unladen.chat.go_template import template_of
        from unladen.chat.named import ChatTemplates
        from unladen.chat.turn import ChatFormat
        of_file = ChatTemplates.from_metadata(self.metadata)
        preset = self._preset
        if template is not None:
            chosen = template_of(registry().get(template, template))
        elif preset is not None and preset.template and not (preset.yields and of_file.names):
            chosen = template_of(registry().get(preset.template, preset.template))
        else:
            chosen = of_file.chosen(tools, documents)
        if chosen.source not in self._formats:
            if len(self._formats) >= KEPT_FORMATS:
                self._formats.clear()
            self._formats[chosen.source] = ChatFormat(chosen, self.tokenizer)
        return self._formats[chosen.source]

    @functools.cached_property
    def _fingerprint(self) -> str:
        """Tells models apart whose templates or vocabularies differ. Reads the whole vocabulary."""
        from hashlib import sha256
        found = sha256(str(self.metadata.get("tokenizer.chat_template")).encode())
        for token in range(self.tokenizer.n_vocab):
            piece = self.tokenizer.token_bytes(token)
            found.update(len(piece).to_bytes(4, "little") + piece)
        return found.hexdigest()

    def _most_tokens(self, max_tokens: int | None) -> int:
        """The most tokens of a conversation that leave room for an answer."""
        size = self.context_size
        room = size // ANSWER_SHARE if max_tokens is None else min(max_tokens, size // 2)
        return size - max(1, room)

    def _cancel(self, answers: Sequence[Answering]) -> None:
        for answering in answers:
            if not answering.request.done:
                self.engine.cancel(answering.request)


def _together(answers: Sequence[Answering]) -> ChatCompletion:
    """The first answer, with the others in it. Raises the error of one that failed."""
    from unladen.api.stream import result_of
    for answering in answers:
        result_of(answering.request)
    first, *others = (answering.completion() for answering in answers)
    return replace(first, others=tuple(others))


def _own(wanted: dict[str, Any]) -> dict[str, Any]:
    """The parameters of ``OWN_NAMES``, which are taken out of ``wanted``."""
    from unladen.parameters.chat import CHAT
    return {name: wanted.pop(name, CHAT.parameters[name].default) for name in OWN_NAMES}


def _thinking(reasoning: bool | str | None) -> dict[str, Any]:
    """The variables by which templates turn reasoning on and off."""
    if reasoning is None:
        return {}
    is_on = reasoning is not False
    variables: dict[str, Any] = {"enable_thinking": is_on, "thinking": is_on}
    return variables | ({"reasoning_effort": reasoning} if isinstance(reasoning, str) else {})
