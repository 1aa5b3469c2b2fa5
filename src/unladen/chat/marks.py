"""Reads text that arrives in pieces: what may begin a mark waits until that is decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""A reader that yields when it needs more text, and returns its result."""

WHITE = " \t\r\n"
"""White space between marks."""
MAX_BLANK = 64
"""Characters of white space that may stand between two marks of a call; more is text. Bounds what
is looked at again when text arrives in small pieces."""
_BLANK = re.compile(f"[{WHITE}]{{0,{MAX_BLANK}}}")
_WHITE_RUN = re.compile(f"[{WHITE}]*")


class NotACall(Exception):
    """The text isn't a call of this form; the message says why."""


class Ended(NotACall):
    """The text ends inside a call."""

    def __init__(self) -> None:
        super().__init__("the text ends inside it")


class Marks:
    """Texts to look for in arriving text; of two that match at one place the longer counts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(sorted({t for t in texts if t}, key=lambda t: (-len(t), t)))
        self._pattern = re.compile("|".join(map(re.escape, self.texts)) or r"(?!)")
        self._firsts = frozenset(t[0] for t in self.texts)
        self._longest = max(map(len, self.texts), default=0)

    def find(self, text: str, at: int, ended: bool) -> tuple[int, str]:
        """(place, mark) of the first mark from ``at`` on. The mark is "" where there is none; the
        place is then the start of the tail that could still begin one."""
        match = self._pattern.search(text, at)
        tail = len(text) if ended else self._tail(text, at)
        # A longer mark may begin in the tail, before the match or with it.
        if match and (ended or match.start() < tail):
            return match.start(), match[0]
        return tail, ""

    def _tail(self, text: str, at: int) -> int:
        for start in range(max(at, len(text) - self._longest + 1), len(text)):
            if text[start] in self._firsts and any(
                    len(t) > len(text) - start and t.startswith(text[start:])
                    for t in self.texts):
                return start
        return len(text)


class Tape:
    """Text as it arrives. Whatever is taken is recorded until :meth:`forget`."""

    def __init__(self) -> None:
        self._text, self._at = "", 0
        self._taken: list[str] = []
        self.ended = False

    def feed(self, text: str) -> None:
        """Append ``text``."""
        self._text, self._at = self._text[self._at:] + text, 0

    def forget(self) -> None:
        """Start the record of what is taken anew."""
        self._taken.clear()

    @property
    def n_waiting(self) -> int:
        """Characters that arrived and weren't taken."""
        return len(self._text) - self._at

    @property
    def taken(self) -> str:
        """The text taken since :meth:`forget`."""
        return "".join(self._taken)

    def take(self, n: int) -> str:
        """Take the next ``n`` characters."""
        piece = self._text[self._at:self._at + n]
        self._at += n
        self._taken.append(piece)
        return piece

    def rest(self) -> str:
        """Take all that has arrived."""
        return self.take(self.n_waiting)

    def run(self, scan: Callable[[str, int, bool], int]) -> None:
        """Take what ``scan(text, at, ended)`` returns as its new place."""
        self.take(scan(self._text, self._at, self.ended) - self._at)

    def wait(self) -> Steps[None]:
        """Wait for more text. Raises :class:`Ended` where there is no more."""
        if self.ended:
            raise Ended
        yield

    def peek(self) -> Steps[str]:
        """The next character, which isn't taken. Raises :class:`Ended`."""
        while self._at >= len(self._text):
            yield from self.wait()
        return self._text[self._at]

    def blank(self) -> Steps[None]:
        """Take white space."""
        while True:
            match = _WHITE_RUN.match(self._text, self._at)
            self.take((match.end() if match else self._at) - self._at)
            if self._at < len(self._text) or self.ended:
                return
            yield

    def until(self, marks: Marks, emit: Callable[[str], object]) -> Steps[str]:
        """Take text up to the next mark and give it to ``emit``. Returns the mark, which isn't
        taken, or "" at the end of the text."""
        while True:
            place, mark = marks.find(self._text, self._at, self.ended)
            if place > self._at:
                emit(self.take(place - self._at))
            if mark or self.ended:
                return mark
            yield

    def ahead(self, texts: Iterable[str], skip: int = 0) -> Steps[tuple[int, str]]:
        """(characters, text) if one of ``texts`` comes next, after ``skip`` characters and white
        space; (0, "") if not. Takes nothing; characters counts from here to the text's end."""
        texts = [t for t in texts if t]
        while True:
            start = self._start(skip)
            rest = self._text[start:start + max(map(len, texts), default=0)]
            found = max((t for t in texts if rest.startswith(t)), key=len, default="")
            open_ = not self.ended and start - self._at - skip < MAX_BLANK and any(
                t.startswith(rest) and len(t) > len(rest) for t in texts)
            if not open_:
                return (start - self._at + len(found), found) if found else (0, "")
            yield

    def ends_after(self, n: int) -> Steps[bool]:
        """Whether nothing but white space comes after ``n`` more characters. Waits until that is
        known."""
        while True:
            if self._start(n) < len(self._text):
                return False
            if self.ended:
                return True
            yield

    def _start(self, skip: int) -> int:
        match = _BLANK.match(self._text, min(self._at + skip, len(self._text)))
        return match.end() if match else self._at + skip

    def optional(self, *texts: str) -> Steps[str]:
        """Take white space and one of ``texts`` if one comes next; returns it or ""."""
        n, text = yield from self.ahead(t.strip(WHITE) for t in texts)
        self.take(n)
        return text

    def exactly(self, text: str) -> Steps[bool]:
        """Take ``text`` if it comes next, without white space before it; whether it does."""
        while not (rest := self._text[self._at:self._at + len(text)]).startswith(text):
            if self.ended or not text.startswith(rest):
                return False
            yield
        self.take(len(text))
        return True

    def literal(self, text: str) -> Steps[None]:
        """Take white space and ``text``. Raises :class:`NotACall` if something else comes."""
        text = text.strip(WHITE)
        if text and not (yield from self.optional(text)):
            yield from self.blank()
            yield from self.peek()
            raise NotACall(f"{text!r} is missing")

    def word(self, pattern: re.Pattern[str], limit: int, may_end: bool = False) -> Steps[str]:
        """Take the longest run that ``pattern`` matches from here. It must be at most ``limit``
        long, and something must follow unless ``may_end``. Raises :class:`NotACall`."""
        while True:
            match = pattern.match(self._text, self._at)
            end = match.end() if match else self._at
            if end - self._at > limit:
                raise NotACall(f"a name has more than {limit} characters")
            if end < len(self._text) or (self.ended and may_end):
                return self.take(end - self._at)
            yield from self.wait()
