"""States of rules over characters: numbers for what may follow a text.

Texts with the same state can be continued in the same ways, so one mask serves after all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from unladen.sample.constrain.expressions import (
    Alternatives,
    Chars,
    Expression,
    Name,
    Repeat,
    Sequence_,
    chars_in,
)

MAX_STATES = 2_000
"""States of one grammar that are told apart."""
MAX_LOOKS = 300
"""Places in the rules that are looked at to find one state, a tenth of a millisecond."""
MAX_KEPT = 20_000
"""Places, and steps from one state to another, that are kept of one grammar: a few MB."""

State: TypeAlias = tuple[int, bytes]
"""A number, and the bytes of a character that isn't complete."""

LOST: State = (-1, b"")
"""The state where none is known: limits were reached, or the text isn't of the grammar."""
_END = 0
"""The place behind the whole text."""


class States:
    """The states of ``rules``, none of which begins with itself. Threads may share it.

    A place is what the text still has to match: an expression, how much of it was matched, and the
    place after it. A state is the set of places at which a character, or the end, may come next.
    """

    def __init__(self, rules: Mapping[str, Expression]) -> None:
        self._rules = rules
        self._edges = sorted({edge for chars in chars_in(rules.values())
                              for low, high in chars.ranges for edge in (low, high + 1)})
        # The place of number n, and the number of each place. Expressions are told apart by their
        # ids, because to compare large ones takes long; ``rules`` keeps them alive.
        self._places: list[tuple[Expression, int, int]] = [(Sequence_(()), 0, _END)]
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._states: dict[frozenset[int], int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._after: dict[tuple[State, int], State] = {}
        first = self._closed([self._place(rules["root"], 0, _END)])
        self.begin: State = (first, b"") if first >= 0 else LOST

    def after(self, state: State, token: int, text: bytes) -> State:
        """The state after ``text``, the bytes of ``token``, from ``state`` on."""
        found = self._after.get((state, token))
        if found is None:
            found = self._found(state, text)
            if len(self._after) < MAX_KEPT:
                self._after[state, token] = found
        return found

    def _found(self, state: State, text: bytes) -> State:
        number, pending = state
        if number < 0:
            return LOST
        whole, rest = _whole_characters(pending + text)
        try:
            codes = [ord(c) for c in whole.decode()]
        except UnicodeDecodeError:
            return LOST
        for code in codes:
            number = self._after_character(number, code)
            if number < 0:
                return LOST
        return number, rest

    def _after_character(self, number: int, code: int) -> int:
        key = number, bisect_right(self._edges, code)
        found = self._next.get(key)
        if found is None:
            found = self._closed(
                rest for expression, _, rest in map(self._places.__getitem__, self._sets[number])
                if isinstance(expression, Chars)
                and any(low <= code <= high for low, high in expression.ranges))
            if len(self._next) < MAX_KEPT:
                self._next[key] = found
        return found

    def _place(self, expression: Expression, n_matched: int, rest: int) -> int:
        """The number of a place: ``n_matched`` parts or repeats of ``expression`` were matched."""
        key = id(expression), n_matched, rest
        found = self._numbers.get(key)
        if found is None:
            self._places.append((expression, n_matched, rest))
            found = self._numbers[key] = len(self._places) - 1
        return found

    def _part(self, whole: Sequence_, n_matched: int, rest: int) -> int:
        """The place of what follows the first ``n_matched`` parts of ``whole``."""
        n_left = len(whole.parts) - n_matched
        if n_left < 2:  # the same place, however many parts were before it
            return self._place(whole.parts[n_matched], 0, rest) if n_left else rest
        return self._place(whole, n_matched, rest)

    def _closed(self, places: Iterable[int]) -> int:
        """The number of the state that has ``places``; negative where there is none."""
        todo, seen, found = [*places], set[int](), set[int]()
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > MAX_LOOKS or len(self._places) > MAX_KEPT:
                return -1
            if place == _END or isinstance(self._places[place][0], Chars):
                found.add(place)
            else:
                todo += self._inside(*self._places[place])
        state = frozenset(found)
        number = self._states.get(state, -1)
        if number < 0 and state and len(self._sets) < MAX_STATES:
            self._sets.append(state)
            number = self._states[state] = len(self._sets) - 1
        return number

    def _inside(self, expression: Expression, n_matched: int, rest: int) -> Iterator[int]:
        """The places that come first in a place which isn't one of a character."""
        if isinstance(expression, Name):
            yield self._place(self._rules[expression.name], 0, rest)
        elif isinstance(expression, Alternatives):
            yield from (self._place(part, 0, rest) for part in expression.parts)
        elif isinstance(expression, Sequence_):
            yield self._place(expression.parts[n_matched], 0, self._part(
                expression, n_matched + 1, rest)) if expression.parts else rest
        elif isinstance(expression, Repeat):
            low, high = expression.low, expression.high
            if n_matched >= low:
                yield rest
            if high is None or n_matched < high:
                n = min(n_matched + 1, low) if high is None else n_matched + 1
                yield self._place(expression.part, 0, self._place(expression, n, rest))


def _whole_characters(text: bytes) -> tuple[bytes, bytes]:
    """``text`` up to its last complete character in UTF-8, and the bytes of the one after it."""
    for n in range(1, min(3, len(text)) + 1):
        byte = text[-n]
        if byte >= 0xC0:  # the first byte of a character of two bytes or more
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return (text[:-n], text[-n:]) if n < size else (text, b"")
        if byte < 0x80:
            break
    return text, b""
