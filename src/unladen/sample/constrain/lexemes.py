"""Writes rules over characters as a Lark grammar for llguidance.

llguidance cuts a text into lexemes, each as long as can be. Masks of lexemes take a fifth of the
time of single characters. Where a rule's part names no recursive rule, and where no text of it that
is complete could be taken for the beginning of a longer lexeme, that part becomes one lexeme: then
the longest lexeme is the only one. Other parts stay as they are, down to single characters, of
which several may be read at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unladen.sample.constrain.automaton import Alphabet, Automaton
from unladen.sample.constrain.expressions import (
    Alternatives,
    Chars,
    Expression,
    Name,
    Repeat,
    Sequence_,
    chars_in,
    empty_rules,
    is_empty,
    names_in,
)
from unladen.sample.constrain.language import EMPTY

MAX_PLACES = 200
"""Characters in an expression that becomes a lexeme, each repeat counted."""
MAX_RULES = 500
"""Rules of a grammar that is looked through for lexemes."""
MAX_CHARS = 2000
"""Characters in such a grammar, where small rules stand in place of their names."""
MAX_SPLITS = 100
"""Lexemes that are taken apart again before all of them are given up."""
MAX_WORK = 3_000_000
"""Pairs of places that are compared before lexemes are given up: a second at most."""


def lark_of(rules: Mapping[str, Expression]) -> str:
    """The grammar whose texts are those of the rule ``root``."""
    made = _Lexemes(rules) if len(rules) <= MAX_RULES else None
    if made is not None and made.are_apart():
        return made.written()
    return _Writer({name: f"r{i}" for i, name in enumerate(rules)}).all_of(rules)


@dataclass
class _Writer:
    names: Mapping[str, str]
    lexemes: Mapping[Expression, bool] = field(default_factory=dict)
    """Expressions that are a lexeme each, and whether they may be empty."""

    def all_of(self, rules: Mapping[str, Expression]) -> str:
        lines = [f"start: {self.names['root']}"]
        lines += [f"{self.names[name]}: {self.of(rule)}" for name, rule in rules.items()]
        return "\n".join(lines)

    def of(self, expression: Expression) -> str:
        if expression in self.lexemes:
            pattern = f"/{_pattern(expression)}/"
            return f"({pattern})?" if self.lexemes[expression] else pattern
        if isinstance(expression, Chars):
            return f"/{_brackets(expression)}/"
        if isinstance(expression, Name):
            return self.names[expression.name]
        if isinstance(expression, Sequence_):
            return " ".join(self.of(part) for part in expression.parts) or EMPTY
        if isinstance(expression, Alternatives):
            return "(" + " | ".join(self.of(part) for part in expression.parts) + ")"
        assert isinstance(expression, Repeat)
        if expression.high == 0:
            return EMPTY
        high = "" if expression.high is None else expression.high
        return f"({self.of(expression.part)}){{{expression.low},{high}}}"


@dataclass
class _Unit:
    """A part of a rule that may become a lexeme: ``after`` are the characters that may follow."""

    expression: Expression
    automaton: Automaton
    after: int = 0


class _Lexemes:
    """The rules with those parts marked that become lexemes."""

    def __init__(self, rules: Mapping[str, Expression]) -> None:
        self._empty = empty_rules(rules)
        self._whole = _inlined(rules)
        self._rules = {name: self._resolved(rule) for name, rule in rules.items()
                       if name not in self._whole or name == "root"}
        self._alphabet = Alphabet(chars_in(self._rules.values()))
        self._blocked: set[Expression] = set()
        self._automata: dict[Expression, Automaton | None] = {}
        self._known: dict[tuple[int, int, int], bool] = {}
        self._n_work = 0
        self._first = self._firsts()
        self._units: dict[Expression, _Unit] = {}
        self._grouped: dict[str, Expression] = {}

    def written(self) -> str:
        names = {name: f"r{i}" for i, name in enumerate(self._rules)}
        writer = _Writer(names, {unit: is_empty(unit, self._empty) for unit in self._units})
        return writer.all_of(self._grouped)

    def are_apart(self) -> bool:
        """Find lexemes so that the longest is always right. False: it takes too long."""
        if sum(1 for _ in chars_in(self._rules.values())) > MAX_CHARS:
            return False
        for _ in range(MAX_SPLITS):
            self._group()
            wrong = self._wrong()
            if self._n_work > MAX_WORK:
                return False
            if wrong is None:
                return True
            self._blocked.add(wrong)
        return False

    def _wrong(self) -> Expression | None:
        """A unit that could hide another, or itself."""
        if list(self._grouped) == ["root"] and self._grouped["root"] in self._units:
            return None  # one lexeme is the whole text
        units = list(self._units.values())
        self._n_work += len(units) ** 2 // 4  # a pair that is known takes less
        for one, other in itertools.product(units, repeat=2):
            pair = id(one.automaton), id(other.automaton), one.after
            if pair not in self._known:
                self._known[pair], n = one.automaton.goes_on(
                    other.automaton, one.after, MAX_WORK - self._n_work)
                self._n_work += n
            if self._known[pair] or self._n_work > MAX_WORK:
                return (one if isinstance(other.expression, Chars) else other).expression
        return None

    def _group(self) -> None:
        """Find the largest units that aren't blocked, and what follows them."""
        self._units, self._grouped = {}, {}
        for name, rule in self._rules.items():
            self._grouped[name] = self._grouped_of(rule)
        after = dict.fromkeys(self._rules, 0)
        is_new = True
        while is_new:
            before = dict(after)
            for name, rule in self._grouped.items():
                self._follow(rule, after[name], after)
            is_new = after != before

    def _grouped_of(self, expression: Expression) -> Expression:
        if self._may_be_one(expression):
            return expression
        if isinstance(expression, Alternatives):
            return Alternatives(tuple(map(self._grouped_of, expression.parts)))
        if isinstance(expression, Repeat):
            return Repeat(self._grouped_of(expression.part), expression.low, expression.high)
        if not isinstance(expression, Sequence_):
            return expression
        parts: list[Expression] = []
        rest: Sequence[Expression] = expression.parts
        while rest:
            for n in range(min(len(rest), MAX_PLACES), 1, -1):
                if self._may_be_one(run := Sequence_(tuple(rest[:n]))):
                    parts.append(run)
                    break
            else:
                n = 1
                parts.append(self._grouped_of(rest[0]))
            rest = rest[n:]
        return Sequence_(tuple(parts))

    def _may_be_one(self, expression: Expression) -> bool:
        """Whether ``expression`` may be a lexeme; it then has an automaton."""
        if expression in self._blocked:
            return False
        if expression not in self._automata:
            self._automata[expression] = None
            if 0 < _n_places(expression) <= MAX_PLACES:
                made = Automaton.of(expression, self._alphabet)
                self._automata[expression] = made if made.is_small() else None
        return self._automata[expression] is not None

    def _follow(self, expression: Expression, follows: int, after: dict[str, int]) -> None:
        """Note what follows the units and the names in ``expression``, which ``follows`` do."""
        if self._may_be_one(expression):
            automaton = self._automata[expression]
            assert automaton is not None
            unit = self._units.setdefault(expression, _Unit(expression, automaton))
            unit.after |= follows
        elif isinstance(expression, Name):
            after[expression.name] |= follows
        elif isinstance(expression, Repeat):
            again = expression.high is None or expression.high > 1
            self._follow(expression.part, follows | (
                self._first_of(expression.part) if again else 0), after)
        elif isinstance(expression, Alternatives):
            for part in expression.parts:
                self._follow(part, follows, after)
        elif isinstance(expression, Sequence_):
            for part in reversed(expression.parts):
                self._follow(part, follows, after)
                first = self._first_of(part)
                follows = follows | first if is_empty(part, self._empty) else first

    def _firsts(self) -> dict[str, int]:
        """The characters that each rule may begin with."""
        self._first = dict.fromkeys(self._rules, 0)
        is_new = True
        while is_new:
            before = dict(self._first)
            for name, rule in self._rules.items():
                self._first[name] = self._first_of(rule)
            is_new = self._first != before
        return self._first

    def _first_of(self, expression: Expression) -> int:
        if isinstance(expression, Chars):
            return self._alphabet.bits(expression)
        if isinstance(expression, Name):
            return self._first[expression.name]
        if isinstance(expression, Repeat):
            return 0 if expression.high == 0 else self._first_of(expression.part)
        found = 0
        for part in getattr(expression, "parts", ()):
            found |= self._first_of(part)
            if isinstance(expression, Sequence_) and not is_empty(part, self._empty):
                break
        return found

    def _resolved(self, expression: Expression) -> Expression:
        """``expression`` with small rules in place of their names."""
        return _with(expression, self._whole)


def _inlined(rules: Mapping[str, Expression]) -> dict[str, Expression]:
    """The rules that name no recursive rule and are small, with no names in them."""
    used_by: dict[str, list[str]] = {}
    n_open = {}
    for name, rule in rules.items():
        used = names_in(rule)
        n_open[name] = len(used)
        for each in used:
            used_by.setdefault(each, []).append(name)
    found: dict[str, Expression] = {}
    todo = [name for name, n in n_open.items() if not n]
    while todo:
        name = todo.pop()
        if _n_places(rules[name], found) > MAX_PLACES:
            continue  # and so it is for all that name it
        found[name] = _with(rules[name], found)
        for user in used_by.get(name, ()):
            n_open[user] -= 1
            if not n_open[user]:
                todo.append(user)
    return found


def _with(expression: Expression, rules: Mapping[str, Expression]) -> Expression:
    if isinstance(expression, Name):
        return rules.get(expression.name, expression)
    if isinstance(expression, Repeat):
        return Repeat(_with(expression.part, rules), expression.low, expression.high)
    if isinstance(expression, Alternatives):
        return Alternatives(tuple(_with(part, rules) for part in expression.parts))
    if isinstance(expression, Sequence_):
        return Sequence_(tuple(_with(part, rules) for part in expression.parts))
    return expression


def _n_places(expression: Expression, rules: Mapping[str, Expression] | None = None) -> int:
    """Characters in ``expression``; more than any limit where it names a rule not in ``rules``."""
    if isinstance(expression, Chars):
        return 1
    if isinstance(expression, Name):
        inner = (rules or {}).get(expression.name)
        return MAX_PLACES + 1 if inner is None else _n_places(inner)
    if isinstance(expression, Repeat):
        times = max(expression.low, 1) if expression.high is None else expression.high
        return times * _n_places(expression.part, rules)
    return sum(_n_places(part, rules) for part in getattr(expression, "parts", ()))


def _pattern(expression: Expression) -> str:
    """``expression``, which has no names, for llguidance."""
    if isinstance(expression, Chars):
        return _brackets(expression)
    if isinstance(expression, Sequence_):
        return "".join(_pattern(part) for part in expression.parts)
    if isinstance(expression, Alternatives):
        return "(?:" + "|".join(_pattern(part) for part in expression.parts) + ")"
    assert isinstance(expression, Repeat)
    high = "" if expression.high is None else expression.high
    return f"(?:{_pattern(expression.part)}){{{expression.low},{high}}}"


def _brackets(chars: Chars) -> str:
    return "[" + "".join(escaped(low) if low == high else f"{escaped(low)}-{escaped(high)}"
                         for low, high in chars.ranges) + "]"


def escaped(code: int) -> str:
    """The character with this ``code`` in an expression for llguidance."""
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{{{code:X}}}"
