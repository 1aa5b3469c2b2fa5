"""Scans values that arrive in pieces, and gives out JSON text: JSON, Python literals and others.

JSON is passed on as it is written. Only control characters inside strings, which JSON doesn't
allow, are escaped. Time is linear in the text and nesting is bounded.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

from unladen.chat.marks import WHITE, NotACall

MAX_DEPTH = 128
"""Levels of nesting that a value may have."""
MAX_SCALAR = 400
"""Characters that a number or word may have."""

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_PYTHON_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_RUN = re.compile(rf"[^{WHITE},:;/<>\]}})(\[{{\"']*")
_SPACES = re.compile(f"[{WHITE}]*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_JSON_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PYTHON_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^xuU])",
                            re.DOTALL)
_LONGEST_ESCAPE = 10
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "\\": "\\", "'": "'",
           '"': '"', "a": "\a", "v": "\v", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a language writes values."""

    quotes: tuple[str, ...] = ('"',)
    """What begins and ends a string."""
    escapes: str = "json"
    """Escapes in strings: "json", "python" or "" for none."""
    words: tuple[tuple[str, str], ...] = (("true", "true"), ("false", "false"), ("null", "null"))
    """Words for values, and what JSON writes."""
    has_bare_keys: bool = False
    """Whether keys may stand without quotes."""
    has_tuples: bool = False
    """Whether ``(..)`` is a list, and a comma may follow the last element."""
    comma: str = ", "
    """What a model writes between two elements."""
    colon: str = ": "
    """What a model writes after a key."""
    sorts_keys: bool = False
    """Whether a model writes keys in the order of the alphabet."""


JSON = Syntax()
PYTHON = Syntax(("'", '"'), "python", (*JSON.words, ("True", "true"), ("False", "false"),
                                       ("None", "null")), has_tuples=True)


def quoted(text: str) -> str:
    """``text`` as the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class ValueScanner:
    """Scans one value. ``out`` collects its JSON text, which grows only."""

    def __init__(self, syntax: Syntax = JSON) -> None:
        self.out: list[str] = []
        self.done = False
        self._syntax = syntax
        self._strict = syntax is JSON
        self._stack: list[str] = []
        self._state = "value"
        self._quote = ""

    def scan(self, text: str, at: int, ended: bool) -> int:
        """Scan ``text`` from ``at`` on and return the place up to which it is understood. Raises
        :class:`NotACall` where the text isn't a value."""
        while not self.done:
            before = at
            if self._quote:
                at = self._string(text, at)
            else:
                spaces = _SPACES.match(text, at)
                at = spaces.end() if spaces else at
                if at > before and self._stack:
                    self.out.append(text[before:at])
                if at == len(text):
                    break
                before = at
                at = self._token(text, at, ended)
            if at == before:
                break
        return at

    def drain(self) -> str:
        """The JSON text since the last call."""
        text = "".join(self.out)
        self.out.clear()
        return text

    def _token(self, text: str, at: int, ended: bool) -> int:
        c, state = text[at], self._state
        if state in ("value", "first value"):
            return self._value(text, at, ended)
        if state in ("key", "first key"):
            return self._key(text, at)
        if state == "colon":
            if c != ":":
                raise NotACall("':' is missing after a key")
            self._state = "value"
        elif c == ",":
            self._state = "key" if self._stack[-1] == "}" else "value"
            if self._syntax.has_tuples:
                return self._after_comma(text, at)
        else:
            self._close(c)
            return at + 1
        self.out.append(c)
        return at + 1

    def _after_comma(self, text: str, at: int) -> int:
        """A comma may be the last before the end: it is written with what follows it."""
        spaces = _SPACES.match(text, at + 1)
        end = spaces.end() if spaces else at + 1
        if end == len(text) or end - at > MAX_SCALAR:
            self._state = "next"
            if end - at > MAX_SCALAR:
                raise NotACall("too much white space")
            return at
        if text[end] == self._closing():
            self._close(text[end])
            return end + 1
        self.out.append(text[at:end])
        return end

    def _closing(self) -> str:
        return self._stack[-1] if self._stack else ""

    def _value(self, text: str, at: int, ended: bool) -> int:
        c = text[at]
        opened = {"{": "}", "[": "]", "(": ")"}.get(c)
        if opened and (c != "(" or self._syntax.has_tuples):
            if len(self._stack) >= MAX_DEPTH:
                raise NotACall(f"a value is nested more than {MAX_DEPTH} levels deep")
            self._stack.append(opened)
            self._state = "first key" if c == "{" else "first value"
            self.out.append("{" if c == "{" else "[")
            return at + 1
        if self._state == "first value" and c == self._closing():
            self._close(c)
            return at + 1
        start = self._begin_string(text, at, ended)
        return self._scalar(text, at, ended) if start is None else start

    def _begin_string(self, text: str, at: int, ended: bool) -> int | None:
        """The place inside a string that begins at ``at``; None if none begins there."""
        for quote in self._syntax.quotes:
            if text.startswith(quote, at):
                self._quote = quote
                self.out.append('"')
                return at + len(quote)
            if len(quote) > 1 and not ended and quote.startswith(text[at:]):
                return at
        return None

    def _key(self, text: str, at: int) -> int:
        c = text[at]
        if c == "}" and self._state == "first key":
            self._close(c)
            return at + 1
        start = self._begin_string(text, at, ended=False)
        if start is not None:
            return start
        if self._strict:
            raise NotACall("a key has no quotes")
        end = text.find(":", at, at + MAX_SCALAR)
        if end < 0:
            if len(text) - at >= MAX_SCALAR:
                raise NotACall("a key is too long")
            return at
        key = text[at:end].strip(WHITE)
        if not key or not (self._syntax.has_bare_keys or _PYTHON_NUMBER.fullmatch(key)):
            raise NotACall("a key has no quotes")
        self.out.append(f'"{quoted(key)}"')
        self._state = "colon"
        return end

    def _close(self, c: str) -> None:
        if not self._stack or c != self._stack[-1]:
            raise NotACall(f"{c!r} stands where ',' or an end is expected")
        self._stack.pop()
        self.out.append("}" if c == "}" else "]")
        self._after_value()

    def _after_value(self) -> None:
        self._state = "next"
        self.done = not self._stack

    def _scalar(self, text: str, at: int, ended: bool) -> int:
        match = _RUN.match(text, at)
        end = match.end() if match else at
        if end - at > MAX_SCALAR:
            raise NotACall(f"a number or word has more than {MAX_SCALAR} characters")
        if end == len(text) and not (ended and self._is_scalar(text[at:end])):
            return at  # it goes on, or breaks off
        self.out.append(self._written(text[at:end]))
        self._after_value()
        return end

    def _is_scalar(self, word: str) -> bool:
        try:
            self._written(word)
        except NotACall:
            return False
        return True

    def _written(self, word: str) -> str:
        if _NUMBER.fullmatch(word):
            return word
        for theirs, ours in self._syntax.words:
            if word == theirs:
                return ours
        if not self._strict and _PYTHON_NUMBER.fullmatch(word):
            return _json_number(word)
        raise NotACall(f"{word[:40]!r} isn't a value")

    def _string(self, text: str, at: int) -> int:
        quote, escapes = self._quote, self._syntax.escapes
        while at < len(text):
            match = _stop(quote, bool(escapes)).search(text, at)
            stop = match.start() if match else _before_tail(text, at, quote)
            if stop > at:
                self._emit(text[at:stop])
                at = stop
            if match is None:
                break
            if text.startswith(quote, at):
                return self._end_string(at)
            after = self._escape(text, at)
            if after == at:
                break
            at = after
        return at

    def _emit(self, piece: str) -> None:
        self.out.append(_CONTROL.sub(lambda m: quoted(m[0]), piece) if self._strict
                        else quoted(piece))

    def _end_string(self, at: int) -> int:
        self.out.append('"')
        at += len(self._quote)
        self._quote = ""
        if self._state in ("key", "first key"):
            self._state = "colon"
        else:
            self._after_value()
        return at

    def _escape(self, text: str, at: int) -> int:
        pattern = _JSON_ESCAPE if self._strict else _PYTHON_ESCAPE
        match = pattern.match(text, at)
        if match is None:
            rest = text[at:at + _LONGEST_ESCAPE]
            if len(rest) < _LONGEST_ESCAPE and re.fullmatch(r"\\(?:[xuU][0-9a-fA-F]*)?", rest):
                return at
            raise NotACall(f"{rest[:2]!r} isn't an escape of a string")
        self.out.append(match[0] if self._strict else quoted(_unescaped(match[0])))
        return match.end()


@functools.cache
def _stop(quote: str, escapes: bool) -> re.Pattern[str]:
    """Where the run of plain characters in a string ends."""
    return re.compile(re.escape(quote) + (r"|\\" if escapes else ""))


def _before_tail(text: str, at: int, quote: str) -> int:
    """The place where the tail of ``text`` begins that could be the start of ``quote``."""
    for start in range(max(at, len(text) - len(quote) + 1), len(text)):
        if quote.startswith(text[start:]):
            return start
    return len(text)


def _json_number(word: str) -> str:
    """A number that Python writes and JSON doesn't: ``+1``, ``1.``, ``.5``."""
    sign = "-" if word.startswith("-") else ""
    whole, e, exponent = word.lstrip("+-").lower().partition("e")
    whole, dot, part = whole.partition(".")
    return f"{sign}{whole or '0'}{dot and '.' + (part or '0')}{e}{exponent}"


def _unescaped(escape: str) -> str:
    letter = escape[1]
    if letter in "xuU":
        code = int(escape[2:], 16)
        return chr(code) if code < 0x110000 else escape
    return _SIMPLE.get(letter, escape)


def as_json(text: str, syntax: Syntax = JSON) -> str | None:
    """``text`` as JSON text if all of it is one value in ``syntax``, else None."""
    scanner = ValueScanner(syntax)
    try:
        end = scanner.scan(text, 0, ended=True)
    except NotACall:
        return None  # the text is no value: the caller keeps it as a string
    return scanner.drain() if scanner.done and not text[end:].strip(WHITE) else None
