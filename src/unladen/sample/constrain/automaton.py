"""Automata of expressions without rules' names: which characters may follow each character."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unladen.sample.constrain.expressions import (
    LAST,
    Alternatives,
    Chars,
    Expression,
    Repeat,
    Sequence_,
)

MAX_STATES = 500
"""States that a lexeme's deterministic automaton may have: hostile ones double with each part."""
SMALL = 12
"""Positions of an automaton that can't have more states than a few thousand."""


class Alphabet:
    """Sets of characters as integers: a bit for each range that no set of a grammar divides."""

    def __init__(self, sets: Iterable[Chars]) -> None:
        edges = {0}
        for chars in sets:
            for low, high in chars.ranges:
                edges |= {low, high + 1}
        self._index = {edge: i for i, edge in enumerate(sorted(edges - {LAST + 1}))}
        self._index[LAST + 1] = len(self._index)
        self._known: dict[Chars, int] = {}

    def bits(self, chars: Chars) -> int:
        """The bits of ``chars``."""
        found = self._known.get(chars)
        if found is None:
            found = 0
            for low, high in chars.ranges:
                found |= (1 << self._index[high + 1]) - (1 << self._index[low])
            self._known[chars] = found
        return found


@dataclass
class Automaton:
    """The places of ``expression`` where a character stands: its set in ``chars``, the places that
    may come after it in ``follow``; those that a text begins and ends with."""

    chars: list[int] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()

    @staticmethod
    def of(expression: Expression, alphabet: Alphabet) -> Automaton:
        """The automaton of ``expression``."""
        made = Automaton()
        _, made.first, made.last = made._add(expression, alphabet)
        return made

    def _add(self, expression: Expression, alphabet: Alphabet
             ) -> tuple[bool, frozenset[int], frozenset[int]]:
        """(whether it may be empty, places that it begins with, places that it ends with)."""
        if isinstance(expression, Chars):
            self.chars.append(alphabet.bits(expression))
            self.follow.append(set())
            own = frozenset([len(self.chars) - 1])
            return False, own, own
        if isinstance(expression, Alternatives):
            parts = [self._add(part, alphabet) for part in expression.parts]
            return (any(empty for empty, _, _ in parts),
                    frozenset().union(*(first for _, first, _ in parts)),
                    frozenset().union(*(last for _, _, last in parts)))
        if isinstance(expression, Sequence_):
            return self._joined(self._add(part, alphabet) for part in expression.parts)
        assert isinstance(expression, Repeat)
        low, high, part = expression.low, expression.high, expression.part
        if high is not None:
            made = [self._add(part, alphabet) for _ in range(high)]
        else:  # the last copy is the one that may come again
            made = [self._add(part, alphabet) for _ in range(max(low, 1))]
            _, again, end = made[-1]
            for place in end:
                self.follow[place] |= again
        return self._joined((empty or i >= low, first, last)
                            for i, (empty, first, last) in enumerate(made))

    def _joined(self, parts: Iterable[tuple[bool, frozenset[int], frozenset[int]]]
                ) -> tuple[bool, frozenset[int], frozenset[int]]:
        is_empty, begin, end = True, frozenset[int](), frozenset[int]()
        for empty, first, last in parts:
            for place in end:
                self.follow[place] |= first
            begin = begin | first if is_empty else begin
            end = end | last if empty else last
            is_empty = is_empty and empty
        return is_empty, begin, end

    def is_small(self) -> bool:
        """Whether reading it takes few states."""
        if len(self.chars) <= SMALL:
            return True
        known = {self.first}
        todo = [self.first]
        while todo:
            for after in self._steps(todo.pop()):
                if after not in known:
                    known.add(after)
                    todo.append(after)
                    if len(known) > MAX_STATES:
                        return False
        return True

    def _steps(self, places: frozenset[int]) -> Iterable[frozenset[int]]:
        """The places after each character that may stand at one of ``places``."""
        apart: Mapping[int, frozenset[int]] = {}
        for place in places:
            bits, found = self.chars[place], dict[int, frozenset[int]]()
            for other, at in apart.items():
                if other & bits:
                    found[other & bits] = at | {place}
                if other & ~bits:
                    found[other & ~bits] = at
                bits &= ~other
            if bits:
                found[bits] = frozenset([place])
            apart = found
        for at in apart.values():
            yield frozenset().union(*(self.follow[place] for place in at))

    def goes_on(self, other: Automaton, after: int, n_most: int) -> tuple[bool, int]:
        """(whether a whole text of this one, and then one of the characters ``after``, begins a
        text of ``other``; how many pairs were looked at). True as well where ``n_most`` pairs don't
        tell."""
        if not any(bits & after for bits in other.chars):
            return False, 1
        todo = [(a, b) for a in self.first for b in other.first if self.chars[a] & other.chars[b]]
        known = set(todo)
        n = 1
        while todo and n <= n_most:
            a, b = todo.pop()
            if a in self.last and any(other.chars[c] & after for c in other.follow[b]):
                return True, n
            n += len(self.follow[a]) * len(other.follow[b])
            for pair in ((c, d) for c in self.follow[a] for d in other.follow[b]
                         if self.chars[c] & other.chars[d]):
                if pair not in known:
                    known.add(pair)
                    todo.append(pair)
        return n > n_most, n
