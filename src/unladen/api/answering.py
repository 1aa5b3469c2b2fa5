"""One answer under way: a request whose text a parser takes apart."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from unladen.chat.completion import ChatCompletion, ChatStopReason
from unladen.chat.parsing import Parser

if TYPE_CHECKING:
    from unladen.chat.deltas import Delta
    from unladen.chat.messages import Message
    from unladen.chat.prompt import Prompt
    from unladen.chat.turn import Turn
    from unladen.engine import Request
    from unladen.sample.constrain.language import Language

COMPLETE = frozenset({"eos", "stop"})
"""Reasons after which nothing of an answer is missing."""


class Answering:
    """The answer that ``request`` writes to ``turn``. ``language``: the form of its text, if it has
    one. :meth:`read` is called whenever the request may have more text."""

    def __init__(self, request: Request, turn: Turn, language: Language | None) -> None:
        self.request = request
        self._turn, self._language = turn, language
        self._parser = Parser(turn.form, turn.tools, turn.prompt.text,
                              allows_calls=bool(turn.tools))
        self._message: Message | None = None
        self._unread: list[Delta] = []
        self._lock = threading.Lock()  # a session may ask for the answer while a stream reads it

    @property
    def prompt(self) -> Prompt:
        """The prompt that is answered."""
        return self._turn.prompt

    @property
    def n_truncated(self) -> int:
        """Tokens of the conversation that were left out of the prompt."""
        return self._turn.n_truncated

    def read(self) -> list[Delta]:
        """What the text that has come since tells."""
        self._parse()
        with self._lock:
            unread, self._unread = self._unread, []
        return unread

    def _parse(self) -> None:
        request = self.request
        with self._lock:
            is_done = request.done  # asked first: text comes before the end
            while request.pieces:
                self._unread += self._parser.feed(request.pieces.popleft())
            if is_done and self._message is None:
                last, self._message = self._parser.finish(is_cut=request.stop_reason != "eos")
                self._unread += last

    def take(self, piece: str) -> list[Delta]:
        """What ``piece`` tells, which is the next text of the request."""
        with self._lock:
            return self._parser.feed(piece)

    def completion(self) -> ChatCompletion:
        """The answer, also one that isn't complete yet."""
        self._parse()
        message = self._message or self._parser.message()
        whole = self.request.completion()
        reason: ChatStopReason = whole.stop_reason
        if message.tool_calls and reason in COMPLETE:
            reason = "tool_calls"
        turn = self._turn
        usage = replace(whole.usage, n_truncated=turn.n_truncated)
        return ChatCompletion(message, reason, usage, whole.timings, whole.tokens,
                              self._parsed(message, reason), whole.logprobs, turn.prompt.notes)

    def _parsed(self, message: Message, reason: ChatStopReason) -> object:
        if self._language is None or reason not in COMPLETE or self._message is None:
            return None
        try:
            return self._language.read(message.content)
        except ValueError:  # a stop string cut it off
            return None
