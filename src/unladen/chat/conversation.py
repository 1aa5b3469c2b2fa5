"""A conversation's messages, and the tokens of its prompts and answers as they were.

A template writes each prompt anew, as text. An answer's text can be encoded in several ways, and
the cache has the way that the model chose. So the ids of answers are kept, and used wherever a
later prompt has the same text and the same control tokens in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from unladen.chat.messages import Message
from unladen.chat.prompt import Prompt
from unladen.chat.reading import REASONING, Messages, read_messages
from unladen.errors import InvalidArgument
from unladen.tokenizer import Tokenizer

WRITTEN = frozenset({*REASONING, "content", "tool_calls"})
"""What a message says, beside the keys that tell who says it and to what."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Text that a template wrote, encoded as one."""

    text: str
    plain: tuple[tuple[int, int], ...]
    """Ranges of ``text`` in which a control token's name is text."""
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Answered:
    """What the model wrote, with the tokens that it chose."""

    ids: list[int]


Piece = Asked | Answered
"""Conversations are kept in pieces: what was asked and what was answered, in turn."""


class Conversation:
    """Messages, and the pieces of the last prompt with its answer. The owner's lock guards it.

    * ``tokenizer``: the model's tokenizer.
    * ``messages``: the messages so far.
    """

    def __init__(self, tokenizer: Tokenizer, messages: Messages = ()) -> None:
        self.tokenizer = tokenizer
        self._control = frozenset(tokenizer.control_texts.values())
        self.messages = deepcopy(read_messages(messages))
        self.pieces: tuple[Piece, ...] = ()

    def copy(self) -> Conversation:
        """A conversation with the same past."""
        other = Conversation(self.tokenizer, self.messages)
        other.pieces = self.pieces
        return other

    def with_said(self, said: object) -> list[dict[str, Any]]:
        """The messages and ``said``: a user's text, a message, several, or None for nothing. Raises
        :class:`InvalidArgument`."""
        if said is None:
            more: Any = []
        elif isinstance(said, str):
            more = [{"role": "user", "content": said}]
        else:
            several = isinstance(said, Sequence) and not isinstance(said, bytes | Mapping)
            more = said if several else [said]
        return [*self.messages, *deepcopy(read_messages(more))]

    def edit(self, index: int, content: Any) -> None:
        """Let the message at ``index`` say ``content``, and drop those behind it. ``content`` is a
        text, a list of parts, or a whole message. Raises :class:`InvalidArgument`."""
        n = len(self.messages)
        if isinstance(index, bool) or not isinstance(index, int) or not -n <= index < n:
            raise InvalidArgument(f"index must be a whole number below {n}, got {index!r}",
                                  hint="session.messages has the messages")
        old = self.messages[index]
        new = content if isinstance(content, Mapping | Message) else {
            **{key: value for key, value in old.items() if key not in WRITTEN}, "content": content}
        self.messages = [*self.messages[:index % n], *deepcopy(read_messages([new]))]

    def answered(self, messages: list[dict[str, Any]], message: Message, asked: Sequence[Piece],
                 ids: list[int], *, is_continued: bool) -> None:
        """Take in that the model answered ``messages`` with ``message``.

        * ``asked``: the pieces of the prompt.
        * ``ids``: the tokens of the answer.
        * ``is_continued``: the last of ``messages`` is the beginning of the answer.
        """
        answer, = deepcopy(read_messages([message]))
        if is_continued:
            answer = _continued(messages[-1], answer)
            messages = messages[:-1]
        self.messages = [*messages, answer]
        self.pieces = (*asked, Answered(ids))

    def split(self, prompt: Prompt) -> list[Piece]:
        """``prompt`` in pieces: those known ones that it begins with, up to the last answer of
        which the prompt has all, and the rest, which is encoded here."""
        begin, n, at = 0, 0, 0
        for i, piece in enumerate(self.pieces):
            end = self._end_of(piece, prompt, at)
            if end is None:
                break
            at = end
            if isinstance(piece, Answered):
                begin, n = end, i + 1
        if not n:
            return [Asked(prompt.text, prompt.plain, prompt.ids)]
        text = prompt.text[begin:]
        plain = within(prompt.plain, begin, len(prompt.text))
        ids = self.tokenizer.encode(text, add_special=False, continues=True, plain=plain)
        return [*self.pieces[:n], Asked(text, plain, ids)]

    def _end_of(self, piece: Piece, prompt: Prompt, at: int) -> int | None:
        """Where ``piece`` ends in ``prompt`` if it begins at ``at``; None: it isn't there."""
        if isinstance(piece, Asked):
            end = at + len(piece.text)
            same = (prompt.text.startswith(piece.text, at)
                    and within(prompt.plain, at, end) == piece.plain)
            return end if same else None
        for text, is_mark in self._parts(piece.ids):
            end = at + len(text)
            if not prompt.text.startswith(text, at) or any(self._marks_in(prompt, at, end)) \
                    is not is_mark:
                return None
            at = end
        return at

    def _marks_in(self, prompt: Prompt, begin: int, end: int) -> Iterator[bool]:
        """True for each name in the range that is a control token."""
        for match in self.tokenizer.control_marks.finditer(prompt.text, begin, end):
            if not any(a < match.end() and match.start() < b for a, b in prompt.plain):
                yield True

    def _parts(self, ids: Sequence[int]) -> Iterator[tuple[str, bool]]:
        """The text of ``ids`` in order, in parts: a control token's name with True, and the text
        between two of them with False."""
        for is_mark, run in groupby(ids, self._control.__contains__):
            if is_mark:
                yield from ((decoded(self.tokenizer, [token]), True) for token in run)
            else:
                yield decoded(self.tokenizer, list(run)), False


def within(plain: Sequence[tuple[int, int]], begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """The parts of the ranges ``plain`` that are in the range, counted from ``begin``."""
    return tuple((max(a, begin) - begin, min(b, end) - begin) for a, b in plain
                 if a < end and begin < b)


def _continued(begun: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The message that begins with ``begun`` and goes on with ``answer``."""
    reasoning = answer.get(REASONING[0], "")
    made = {**begun, **answer}
    for key, text in {"content": answer["content"], **dict.fromkeys(REASONING, reasoning)}.items():
        before = begun.get(key)
        if isinstance(before, str):
            made[key] = before + text
        elif before:  # parts, the last of which is text
            *others, last = before
            made[key] = [*others, {**last, "text": last["text"] + text}]
    return made


def decoded(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of ``ids`` in the middle of a text."""
    return b"".join(map(tokenizer.token_bytes, ids)).decode(errors="replace")
