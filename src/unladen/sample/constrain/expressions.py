"""What the right side of a grammar's rule is made of, down to characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

LAST = 0x10FFFF
"""The largest code of a character."""
_SURROGATES = (0xD800, 0xDFFF)
"""Codes that UTF-8 can't write."""

Range = tuple[int, int]
"""The first and the last code of characters that follow one another."""


@dataclass(frozen=True)
class Expression:
    """A part of a rule."""


@dataclass(frozen=True)
class Chars(Expression):
    """One character of ``ranges``, which are in order and apart."""

    ranges: tuple[Range, ...]

    @staticmethod
    def of(ranges: Iterable[Range], *, inverted: bool = False) -> Chars:
        """The characters in ``ranges`` in any order, or all others."""
        joined: list[Range] = []
        for low, high in sorted([*ranges, *([_SURROGATES] if inverted else [])]):
            if joined and low <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(high, joined[-1][1])
            else:
                joined.append((low, high))
        if not inverted:
            return Chars(tuple(_without_surrogates(joined)))
        ends = [-1, *(high for _, high in joined)]
        begins = [*(low for low, _ in joined), LAST + 1]
        return Chars(tuple((end + 1, begin - 1) for end, begin in zip(ends, begins, strict=True)
                           if end + 1 < begin))


ANY = Chars.of((), inverted=True)
"""Any character, a line break as well."""


@dataclass(frozen=True)
class Name(Expression):
    """What the rule ``name`` says."""

    name: str


@dataclass(frozen=True)
class Sequence_(Expression):
    """``parts`` one after another."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Alternatives(Expression):
    """One of ``parts``."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(Expression):
    """``part`` at least ``low`` times, at most ``high`` times; None: any number."""

    part: Expression
    low: int
    high: int | None


def chars_in(expressions: Iterable[Expression]) -> Iterator[Chars]:
    """The sets of characters in ``expressions``, in no order; rules that they name aren't read."""
    todo = [*expressions]
    while todo:
        expression = todo.pop()
        if isinstance(expression, Chars):
            yield expression
        elif isinstance(expression, Repeat):
            todo.append(expression.part)
        else:
            todo += getattr(expression, "parts", ())


def _without_surrogates(ranges: Iterable[Range]) -> Iterable[Range]:
    first, last = _SURROGATES
    for low, high in ranges:
        if low < first:
            yield low, min(high, first - 1)
        if high > last:
            yield max(low, last + 1), high


def is_empty(expression: Expression, empty: set[str]) -> bool:
    """Whether ``expression`` may be the empty text, where the rules in ``empty`` may."""
    if isinstance(expression, Name):
        return expression.name in empty
    if isinstance(expression, Sequence_):
        return all(is_empty(part, empty) for part in expression.parts)
    if isinstance(expression, Alternatives):
        return any(is_empty(part, empty) for part in expression.parts)
    if isinstance(expression, Repeat):
        return expression.low == 0 or expression.high == 0 or is_empty(expression.part, empty)
    return False


def empty_rules(rules: Mapping[str, Expression]) -> set[str]:
    """The rules that may be the empty text."""
    used_by: dict[str, list[str]] = {}
    for name, rule in rules.items():
        for used in names_in(rule):
            used_by.setdefault(used, []).append(name)
    empty, todo = set[str](), list(rules)
    while todo:
        name = todo.pop()
        if name not in empty and is_empty(rules[name], empty):
            empty.add(name)
            todo += used_by.get(name, ())  # these may be empty now
    return empty


def names_in(expression: Expression, empty: set[str] | None = None) -> set[str]:
    """The rules that ``expression`` names. With ``empty``, the rules that may be the empty text:
    only those that a text of ``expression`` may begin with."""
    if isinstance(expression, Name):
        return {expression.name}
    if isinstance(expression, Repeat):
        return names_in(expression.part, empty)
    found = set[str]()
    for part in getattr(expression, "parts", ()):
        found |= names_in(part, empty)
        if (empty is not None and isinstance(expression, Sequence_)
                and not is_empty(part, empty)):
            break
    return found
