"""Answers under way: what each step adds to them, as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from unladen.api.begin import prompt_logprobs
from unladen.chat.deltas import CallArguments, CallBegun, ContentDelta, Delta, ReasoningDelta
from unladen.server import events
from unladen.server.events import Ended, Event, Piece, Probabilities, Reason
from unladen.server.ipc import Message
from unladen.server.worker.job import Job, ended, event, started

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.api.answering import Answering
    from unladen.engine import Request
    from unladen.tokenizer import Tokenizer
    from unladen.types import TokenLogprob

    Shown = tuple[int, str, float | None, list[tuple[int, str, float]]]


class Choice:
    """Answer number ``number``, which ``request`` writes."""

    def __init__(self, number: int, request: Request, tokenizer: Tokenizer) -> None:
        self.number, self.request = number, request
        self.is_ended = False
        self._tokenizer = tokenizer
        self._n_logprobs = 0
        self._waiting: list[Shown] = []
        """Tokens whose text wasn't sent yet."""

    def news(self) -> Iterator[Event]:
        """What happened since the last call. Raises the request's error."""
        request = self.request
        is_done = request.done  # asked first: text comes before the end
        if not is_done and not request.pieces:
            return
        if request.error is not None:
            raise request.error
        if request.n_logprobs is not None:
            self._note(request.logprobs)
        yield from self._written()
        if is_done and not self.is_ended:
            yield from self._last()
            self.is_ended = True
            yield self._ended()

    def _written(self) -> Iterator[Event]:
        """Events of the text that has come."""
        raise NotImplementedError

    def _last(self) -> Iterator[Event]:
        """Events of the text that was held back."""
        yield from ()

    def _note(self, logprobs: Sequence[TokenLogprob]) -> None:
        new = logprobs[self._n_logprobs:]
        self._n_logprobs += len(new)
        self._waiting += (shown(self._tokenizer, each) for each in new)

    def _probabilities(self) -> Iterator[Event]:
        """The tokens of the text that is sent next."""
        if self._waiting:
            yield Probabilities(self.number, self._waiting)
            self._waiting = []

    def _reason(self) -> Reason:
        reason = self.request.stop_reason
        assert reason is not None
        return "end" if reason == "eos" else reason

    def _n_reasoning(self) -> int:
        return 0

    def _ended(self) -> Ended:
        request, whole = self.request, self.request.completion()
        wait_s = 0.0 if request.admitted is None else request.admitted - request.submitted
        return Ended(
            self.number, self._reason(),
            request.stop_string if request.stop_reason == "stop" else "", whole.usage.n_prompt,
            whole.usage.n_cached, whole.usage.n_completion, self._n_reasoning(), 0.0, wait_s,
            max(0.0, whole.timings.prompt_s - wait_s), whole.timings.completion_s,
            whole.timings.n_drafted, whole.timings.n_accepted)


class TextChoice(Choice):
    """A continuation of a text."""

    def _written(self) -> Iterator[Event]:
        pieces = self.request.pieces
        if pieces:
            yield from self._probabilities()
            yield Piece(self.number, "".join(pieces.popleft() for _ in range(len(pieces))))


class ChatChoice(Choice):
    """An answer in a conversation."""

    def __init__(self, number: int, answering: Answering, tokenizer: Tokenizer) -> None:
        super().__init__(number, answering.request, tokenizer)
        self._answering = answering
        self._n_seen = self._n_thought = 0
        self._is_plain = True

    def _written(self) -> Iterator[Event]:
        request = self.request
        n = len(request.tokens) - request.n_prompt
        while request.pieces:
            # A piece is the text of a token, unless a token had no text of its own.
            self._n_seen = n if len(request.pieces) == 1 else min(self._n_seen + 1, n)
            for delta in self._answering.take(request.pieces.popleft()):
                yield from self._told(delta)

    def _last(self) -> Iterator[Event]:
        for delta in self._answering.read():
            yield from self._told(delta)

    def _told(self, delta: Delta) -> Iterator[Event]:
        if isinstance(delta, ContentDelta):
            if not self._is_plain:  # of the marks before it, no text was sent
                self._waiting, self._is_plain = self._waiting[-1:], True
            yield from self._probabilities()
            yield Piece(self.number, delta.text)
            return
        self._waiting.clear()
        self._is_plain = False
        if isinstance(delta, ReasoningDelta):
            self._n_thought = self._n_seen
            yield events.Reasoning(self.number, delta.text)
        elif isinstance(delta, CallBegun):
            yield events.CallBegun(self.number, delta.index, delta.id, delta.name)
        elif isinstance(delta, CallArguments):
            yield events.CallArguments(self.number, delta.index, delta.text)

    def _reason(self) -> Reason:
        reason = self._answering.completion().stop_reason
        return "end" if reason == "eos" else reason

    def _n_reasoning(self) -> int:
        return self._n_thought


class Echo:
    """The prompt's own text, which is sent before all else. ``request``: computes the logits of all
    its tokens; None: no log-probabilities are wanted. ``n_hidden`` tokens at its beginning aren't
    part of the text."""

    def __init__(self, text: str, ids: Sequence[int], tokenizer: Tokenizer,
                 request: Request | None, n_top: int, n_hidden: int) -> None:
        self.text, self.request = text, request
        self._ids, self._tokenizer = ids, tokenizer
        self._n_top, self._n_hidden = n_top, n_hidden

    def of(self, number: int) -> Iterator[Event]:
        """The events of answer ``number``; the request is done. Raises its error."""
        if self.request is not None:
            first: list[Shown] = [
                (each, _bytes(self._tokenizer, each), None, []) for each in self._ids]
            rest = [shown(self._tokenizer, each)
                    for each in prompt_logprobs(self.request, self._n_top)]
            tokens = [first[0], *rest][self._n_hidden:]
            if tokens:
                tokens[0] = first[self._n_hidden]
                yield Probabilities(number, tokens)
        if self.text:
            yield Piece(number, self.text)


class Answers(Job):
    """The ``choices`` that answer one request. ``echo``: what is sent before them."""

    def __init__(self, id: int, model: Model, choices: Sequence[Choice],  # noqa: A002
                 echo: Echo | None = None) -> None:
        super().__init__(id)
        self._model, self._choices, self._echo = model, choices, echo
        self._has_started = False

    @property
    def _requests(self) -> list[Request]:
        found = [each.request for each in self._choices]
        if self._echo is not None and self._echo.request is not None:
            found.append(self._echo.request)
        return found

    def news(self, out: list[Message]) -> bool:
        """See :class:`Job`."""
        if not self._has_started and any(
                each.admitted is not None or each.done for each in self._requests):
            self._has_started = True
            out.append(started(self.id))
        if self._echo is not None:
            if self._echo.request is not None and not self._echo.request.done:
                return False
            for choice in self._choices:
                out.extend(event(self.id, each) for each in self._echo.of(choice.number))
            self._echo = None
        for choice in self._choices:
            if not choice.is_ended:
                out.extend([event(self.id, each) for each in choice.news()])
        if all(choice.is_ended for choice in self._choices):
            out.append(ended(self.id))
            return True
        return False

    def tokens(self) -> list[int]:
        """See :class:`Job`."""
        return self._choices[0].request.tokens

    @property
    def n_written(self) -> int:
        """See :class:`Job`."""
        return sum(len(each.request.tokens) - each.request.n_prompt for each in self._choices)

    def cancel(self) -> None:
        """See :class:`Job`."""
        for request in self._requests:
            if not request.done:
                self._model.engine.cancel(request)


def shown(tokenizer: Tokenizer, found: TokenLogprob) -> Shown:
    """``found`` as events have it."""
    return (found.token, _bytes(tokenizer, found.token), found.logprob,
            [(token, _bytes(tokenizer, token), logprob) for token, logprob in found.top])


def _bytes(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.token_bytes(token).decode("latin-1")
