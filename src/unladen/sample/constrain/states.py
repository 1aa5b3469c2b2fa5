"""States of languages that are spelled by characters: numbers for what may follow a text.

Texts with the same state can be continued in the same ways, so one mask serves after all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from unladen.sample.constrain.expressions import (
    ANY,
    LAST,
    Alternatives,
    Chars,
    Expression,
    Name,
    Repeat,
    Sequence_,
    chars_in,
)
from unladen.sample.constrain.language import split

if TYPE_CHECKING:
    from unladen.sample.constrain.language import Language

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


def code_of(token: int) -> int:
    """What stands for a special ``token`` in sets of characters."""
    return LAST + 1 + token


class Spelled:
    """Languages as rules over characters. ``special_ids``: special tokens by their texts.
    :attr:`rules`: the rules so far, by name."""

    def __init__(self, special_ids: Mapping[str, int]) -> None:
        self._special_ids = special_ids
        self.rules: dict[str, Expression] = {}

    def add(self, rules: Mapping[str, Expression]) -> bool:
        """Add ``rules``; False where others have one of their names."""
        return all(self.rules.setdefault(name, rule) is rule for name, rule in rules.items())

    def several(self, kind: Callable[[tuple[Expression, ...]], Expression],
                parts: Sequence[Language]) -> Expression | None:
        """An expression of a ``kind`` that has several parts; None where one isn't known."""
        found = [part.expression(self) for part in parts]
        known = [part for part in found if part is not None]
        return kind(tuple(known)) if len(known) == len(found) else None

    def literal(self, text: str) -> Expression:
        """``text``: its characters, and the special tokens whose texts are in it."""
        pieces = split(text, self._special_ids)
        return _literal(code for piece in pieces for code in (
            [code_of(self._special_ids[piece])] if piece in self._special_ids else map(ord, piece)))

    def behind(self, mark: str, then: Expression) -> Expression | None:
        """Any characters up to the first ``mark``, and then a text of ``then``. What stands before
        a special token in the mark is a part of the text."""
        pieces = split(mark, self._special_ids)
        at = next((i for i, each in enumerate(pieces) if each in self._special_ids), None)
        if at is not None:
            return Sequence_((Repeat(ANY, 0, None), self.literal("".join(pieces[at:])), then))
        names = [Name(f"{n} of {mark}") for n in range(len(mark) + 1)]
        rules: dict[str, Expression] = {names[-1].name: then}
        others = Chars.of(((ord(c), ord(c)) for c in mark), inverted=True)
        for n in range(len(mark)):  # so many characters of the mark were written
            rules[names[n].name] = Alternatives((Sequence_((others, names[0])), *(
                Sequence_((_literal([ord(c)]), names[_overlap(mark[:n] + c, mark)]))
                for c in dict.fromkeys(mark))))
        return names[0] if self.add(rules) else None

    def may_begin(self, expression: Expression, characters: str) -> bool:
        """Whether a text of ``expression`` may begin with one of ``characters``, or its state is
        not known."""
        states = States(self.rules, expression)
        return states.begin == LOST or any(states.behind(states.begin[0], ord(c))
                                           for c in characters)


def _literal(codes: Iterable[int]) -> Expression:
    return Sequence_(tuple(Chars(((code, code),)) for code in codes))


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of ``text`` are the beginning of ``mark``."""
    return next(n for n in range(min(len(text), len(mark)), -1, -1)
                if text.endswith(mark[:n]))


def states_of(language: Language, special_ids: Mapping[str, int]) -> States | None:
    """The states of ``language``; None where it isn't known how it is spelled."""
    spelled = Spelled(special_ids)
    whole = language.expression(spelled)
    return None if whole is None else States(spelled.rules, whole)


class States:
    """The states of a language: of the expression ``whole``, which names ``rules``, none of which
    begins with itself. Threads may share it.

    A place is what the text still has to match: an expression, how much of it was matched, and the
    place after it. A state is the set of places at which a character, or the end, may come next.
    """

    def __init__(self, rules: Mapping[str, Expression], whole: Expression) -> None:
        self._rules, self._whole = rules, whole
        self._edges = sorted({edge for chars in chars_in([*rules.values(), whole])
                              for low, high in chars.ranges for edge in (low, high + 1)})
        # The place of number n, and the number of each place. Expressions are told apart by their
        # ids, because to compare large ones takes long; they are kept alive here.
        self._places: list[tuple[Expression, int, int]] = [(Sequence_(()), 0, _END)]
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._states: dict[frozenset[int], int] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._after: dict[tuple[State, int], State] = {}
        first = self._closed([self._place(whole, 0, _END)])
        self.begin: State = (first, b"") if first >= 0 else LOST

    def after(self, state: State, token: int, text: bytes | None) -> State:
        """The state after ``token``, from ``state`` on. ``text``: its bytes; None: it is a special
        token, which text doesn't have."""
        found = self._after.get((state, token))
        if found is None:
            found = self._found(state, text) if text is not None else (
                self._after_codes(state, [code_of(token)], b"") if not state[1] else LOST)
            if len(self._after) < MAX_KEPT:
                self._after[state, token] = found
        return found

    def _found(self, state: State, text: bytes) -> State:
        whole, rest = _whole_characters(state[1] + text)
        try:
            codes = [ord(c) for c in whole.decode()]
        except UnicodeDecodeError:
            return LOST
        return self._after_codes(state, codes, rest)

    def _after_codes(self, state: State, codes: Sequence[int], rest: bytes) -> State:
        number = state[0]
        if number < 0:
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
            found = self._closed(self.behind(number, code))
            if len(self._next) < MAX_KEPT:
                self._next[key] = found
        return found

    def behind(self, number: int, code: int) -> list[int]:
        """The places behind the character ``code`` in the state ``number``."""
        return [rest for expression, _, rest in map(self._places.__getitem__, self._sets[number])
                if isinstance(expression, Chars)
                and any(low <= code <= high for low, high in expression.ranges)]

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

    def _closed(self, places: Sequence[int]) -> int:
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
