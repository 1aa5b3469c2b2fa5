"""Keeps control marks in a caller's texts apart from those that a template writes.

A character of each mark in the caller's texts is replaced by a private one before the template is
rendered, and put back afterwards: where it stood, the mark is text. One character for one character
leaves lengths, white space and JSON escapes alone, so the template does what it does without it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from unladen.errors import InvalidArgument, TemplateError

PRIVATE: Final = range(0x100000, 0x10FFFE)
"""Code points without a meaning. Those that occur in a conversation aren't used for it."""
_PRIVATE: Final = re.compile(f"[{chr(PRIVATE[0])}-{chr(PRIVATE[-1])}]")
_UNSUITED: Final = re.compile(r"[\s\w\"'\\]")
"""Characters that templates trim, change in case, or escape in JSON."""


class Marks:
    """The texts of control tokens, and how they are hidden in a caller's texts.

    ``texts`` are the marks. Objects can be shared by threads.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted((text for text in texts if text.strip()), key=len, reverse=True)
        whole = "|".join(map(re.escape, self._texts))
        self._found = re.compile(whole or r"(?!)")
        # A mark may be put together from a caller's text and what stands beside it.
        self._ends = frozenset(text[:n] for text in self._texts for n in range(1, len(text)))
        self._starts = frozenset(text[n:] for text in self._texts for n in range(1, len(text)))
        self._longest = max(map(len, self._texts), default=0)

    def hide(self, values: Any, source: str = "") -> tuple[Any, Mapping[int, str]]:
        """``values``, a list or dict of a caller, with a private character in every mark; and what
        each private character stands for, by its code point. Nothing is copied without marks.
        ``source``: the template, whose own characters aren't used. Raises
        :class:`~unladen.errors.InvalidArgument` where the caller uses all private characters."""
        texts = {*_texts(values)}
        places = {text: found for text in texts if (found := self._places(text))}
        if not places:
            return values, {}
        chosen = sorted({text[at] for text, found in places.items() for at in found})
        used = {char for text in (source, *texts) for char in _PRIVATE.findall(text)}
        free = itertools.islice((char for char in map(chr, PRIVATE) if char not in used),
                                len(chosen))
        private = dict(zip(chosen, free, strict=False))
        if len(private) < len(chosen):
            raise InvalidArgument("the messages have control marks and all private characters",
                                  hint=f"leave out characters from U+{PRIVATE[0]:X} on")
        hidden = {text: _replaced(text, found, private) for text, found in places.items()}
        return _mapped(values, hidden), {ord(code): char for char, code in private.items()}

    def _places(self, text: str) -> set[int]:
        """Where ``text`` has characters that have to be hidden."""
        found: set[int] = set()
        at = 0
        while match := self._found.search(text, at):
            found.add(match.start() + _suited(match[0]))
            at = match.start() + 1
        for n in range(1, min(self._longest, len(text) + 1)):
            for part, known, begin in ((text[-n:], self._ends, len(text) - n),
                                       (text[:n], self._starts, 0)):
                if part in known and not _UNSUITED.match(part[inner := _suited(part)]):
                    found.add(begin + inner)
        return found


def _suited(mark: str) -> int:
    """The place of a character of ``mark`` that templates pass through as it is."""
    return next((i for i, char in enumerate(mark) if not _UNSUITED.match(char)), 0)


def _replaced(text: str, places: Collection[int], private: Mapping[str, str]) -> str:
    """``text`` with private characters in these ``places``."""
    chars = list(text)
    for at in places:
        chars[at] = private[chars[at]]
    return "".join(chars)


def _mapped(value: Any, hidden: Mapping[str, str]) -> Any:
    """``value`` with the ``hidden`` form of its texts, in new lists and dicts."""
    if isinstance(value, str):
        return hidden.get(value, value)
    if isinstance(value, dict):  # a template looks for names of fields: words are no marks
        return {key if key.isidentifier() else hidden.get(key, key): _mapped(inner, hidden)
                for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(inner, hidden) for inner in value]
    return value


def _texts(value: Any) -> Iterable[str]:
    """Every text in ``value``, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def shown(text: str, private: Mapping[int, str]) -> tuple[str, list[tuple[int, int]]]:
    """``text`` with the characters that were hidden, and where they are: ranges of one character.

    Raises :class:`~unladen.errors.TemplateError` where the template wrote one as an escape.
    """
    if not private:
        return text, []
    for code in private:
        escaped = chr(code).encode("utf-16-be").hex()
        if f"\\u{escaped[:4]}\\u{escaped[4:]}" in text.lower():
            raise TemplateError("it escapes control marks in the messages",
                                hint="leave the names of control tokens out of the messages")
    ranges = [match.span() for match in _PRIVATE.finditer(text) if ord(match[0]) in private]
    return text.translate(private), ranges
