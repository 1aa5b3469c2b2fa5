"""GBNF, llama.cpp's grammars, exactly as they are: read, checked and written for llguidance.

llguidance cuts a text into lexemes, each as long as can be. GBNF knows characters alone.
:mod:`~unladen.sample.constrain.lexemes` finds the parts of a grammar for which that is the same.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NoReturn

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Text, shown
from unladen.sample.constrain.expressions import (
    ANY,
    Alternatives,
    Chars,
    Expression,
    Name,
    Repeat,
    Sequence_,
    empty_rules,
    names_in,
)
from unladen.sample.constrain.language import Grammars, Language
from unladen.sample.constrain.lexemes import lark_of
from unladen.sample.constrain.states import Spelled

MAX_REPEATS = 2000
"""The largest number in a repetition, as in llama.cpp: each repeat is written out."""
MAX_NESTING = 100
"""Brackets within brackets that are taken."""
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True)
class Gbnf(Language):
    """The texts of a GBNF grammar, from its rule ``root``. Raises :class:`InvalidArgument` that
    tells the line and column."""

    text: str
    rules: Mapping[str, Expression] = field(init=False, repr=False, compare=False)
    written: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Text("a GBNF grammar", filled=True).of("grammar", self.text)
        try:
            rules, written = _read(self.text)
        except RecursionError:
            raise InvalidArgument("the GBNF grammar is nested too deeply",
                                  hint="give its inner parts names") from None
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "written", written)

    def expression(self, spelled: Spelled) -> Expression | None:
        """The rules themselves."""
        return Name("root") if spelled.add(self.rules) else None

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """A Lark grammar with the same texts."""
        return {"lark_grammar": self.written}

    def blamed(self, message: str) -> InvalidArgument:
        """For grammars that are too large."""
        return InvalidArgument(f"the GBNF grammar can't be compiled: {message}",
                               hint="make it smaller")


@functools.lru_cache(maxsize=32)  # as many as a guide keeps compiled
def _read(text: str) -> tuple[Mapping[str, Expression], str]:
    """The rules of the grammar ``text``, and a Lark grammar with the same texts."""
    rules = _Reader(text).rules()
    return rules, lark_of(rules)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.first_use: dict[str, int] = {}

    def rules(self) -> Mapping[str, Expression]:
        """The rules by name, complete and without left recursion."""
        rules: dict[str, Expression] = {}
        self.skip(lines=True)
        while self.at < len(self.text):
            start, name = self.at, self.name()
            self.skip(lines=False)
            if not self.text.startswith("::=", self.at):
                self.fail("expected ::= after a rule's name")
            self.at += 3
            self.skip(lines=True)
            if name in rules:
                self.at = start
                self.fail(f"the rule {name} is there twice")
            rules[name] = self.alternatives(nested=False)
            if self.at < len(self.text) and self.text[self.at] not in "\r\n":
                self.fail(f"unexpected {shown(self.text[self.at])}")
            self.skip(lines=True)
        if "root" not in rules:
            raise InvalidArgument("the GBNF grammar has no rule root",
                                  hint='for example root ::= "yes" | "no"')
        for name, at in self.first_use.items():
            if name not in rules:
                self.at = at
                self.fail(f"there is no rule {name}")
        _refuse_left_recursion(rules)
        return rules

    def alternatives(self, *, nested: bool) -> Expression:
        found = [self.sequence(nested=nested)]
        while self.text[self.at:self.at + 1] == "|":
            self.at += 1
            self.skip(lines=True)
            found.append(self.sequence(nested=nested))
        return found[0] if len(found) == 1 else Alternatives(tuple(found))

    def sequence(self, *, nested: bool) -> Expression:
        parts: list[Expression] = []
        while self.at < len(self.text):
            c, start = self.text[self.at], len(parts)
            if c == '"':
                parts += self.literal()
            elif c == "[":
                parts.append(self.chars())
            elif c == ".":
                self.at += 1
                parts.append(ANY)
            elif c == "(":
                parts.append(self.group())
            elif _is_word(c):
                at, name = self.at, self.name()
                self.first_use.setdefault(name, at)
                parts.append(Name(name))
            else:
                break
            self.skip(lines=nested)
            while self.text[self.at:self.at + 1] and self.text[self.at] in "*+?{":
                low, high = self.counts()
                # llama.cpp repeats the whole literal, as anybody would expect.
                whole = parts[start] if len(parts) - start == 1 else Sequence_(tuple(parts[start:]))
                parts[start:] = [Repeat(whole, low, high)]
                self.skip(lines=nested)
        return parts[0] if len(parts) == 1 else Sequence_(tuple(parts))

    def group(self) -> Expression:
        self.at += 1
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"more than {MAX_NESTING} brackets within one another")
        self.skip(lines=True)
        inner = self.alternatives(nested=True)
        if self.text[self.at:self.at + 1] != ")":
            self.fail("expected )")
        self.at += 1
        self.depth -= 1
        return inner

    def literal(self) -> list[Expression]:
        self.at += 1
        found: list[Expression] = []
        while self.text[self.at:self.at + 1] != '"':
            c = self.character('"')
            found.append(Chars(((c, c),)))
        self.at += 1
        return found

    def chars(self) -> Chars:
        self.at += 1
        inverted = self.text[self.at:self.at + 1] == "^"
        self.at += inverted
        ranges = []
        while self.text[self.at:self.at + 1] != "]":
            low = high = self.character("]")
            if self.text[self.at:self.at + 1] == "-" and self.text[self.at + 1:self.at + 2] != "]":
                self.at += 1
                high = self.character("]")
            if low > high:
                self.fail("a range ends before it begins")
            ranges.append((low, high))
        self.at += 1
        made = Chars.of(ranges, inverted=inverted)
        if not made.ranges:
            self.fail("no character fits these brackets")
        return made

    def character(self, end: str) -> int:
        """The code of the next character, which may be written as an escape."""
        if self.at >= len(self.text):
            self.fail(f"expected {end}")
        c = self.text[self.at]
        self.at += 1
        if c != "\\":
            return ord(c)
        c = self.text[self.at:self.at + 1]
        self.at += 1
        if c in _ESCAPES and c:
            return ord(_ESCAPES[c])
        n = _HEX_DIGITS.get(c, 0)
        digits = self.text[self.at:self.at + n]
        if not n or len(digits) < n or set(digits) - set("0123456789abcdefABCDEF"):
            self.fail("an unknown escape")
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self.fail(f"there is no character U+{code:X}")
        self.at += n
        return code

    def counts(self) -> tuple[int, int | None]:
        c = self.text[self.at]
        self.at += 1
        if c != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[c]
        self.skip(lines=True)
        low = self.number()
        high: int | None = low
        self.skip(lines=True)
        if self.text[self.at:self.at + 1] == ",":
            self.at += 1
            self.skip(lines=True)
            high = self.number() if self.text[self.at:self.at + 1] != "}" else None
            self.skip(lines=True)
        if self.text[self.at:self.at + 1] != "}":
            self.fail("expected }")
        self.at += 1
        if max(low, high or 0) > MAX_REPEATS or (high is not None and high < low):
            self.fail(f"repetitions go from a smaller to a larger number up to {MAX_REPEATS}")
        return low, high

    def number(self) -> int:
        start = self.at
        while self.text[self.at:self.at + 1] in tuple("0123456789"):
            self.at += 1
        if not 0 < self.at - start < 9:
            self.fail("expected a number")
        return int(self.text[start:self.at])

    def name(self) -> str:
        start = self.at
        while self.at < len(self.text) and _is_word(self.text[self.at]):
            self.at += 1
        if self.at == start:
            self.fail("expected the name of a rule")
        return self.text[start:self.at]

    def skip(self, *, lines: bool) -> None:
        """Skip blanks and comments, and line breaks if ``lines``."""
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "#":
                while self.at < len(self.text) and self.text[self.at] not in "\r\n":
                    self.at += 1
            elif c in " \t" or (lines and c in "\r\n"):
                self.at += 1
            else:
                return

    def fail(self, message: str) -> NoReturn:
        before = self.text[:self.at]
        line, column = before.count("\n") + 1, self.at - before.rfind("\n")
        raise InvalidArgument(f"the GBNF grammar is malformed at line {line}, column {column}: "
                              f"{message}", hint="grammars/README.md of llama.cpp describes GBNF")


def _is_word(c: str) -> bool:
    return c.isascii() and (c.isalnum() or c in "-_")


def _refuse_left_recursion(rules: Mapping[str, Expression]) -> None:
    """llama.cpp refuses such rules, and so they have no meaning that could be kept."""
    empty = empty_rules(rules)
    try:
        TopologicalSorter({name: names_in(rule, empty) for name, rule in rules.items()}).prepare()
    except CycleError as error:
        raise InvalidArgument(
            f"the GBNF grammar's rule {error.args[1][0]} begins with itself",
            hint="write a repetition: item+ in place of list ::= list item | item") from None
