"""Regular expressions as Python's ``re`` reads them, written for llguidance.

Python's own parser reads them, so that nothing means something else there: Rust's reads ``a++``
and ``[a&&b]`` otherwise. What can't be written is an error that names it.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Text, shown
from unladen.sample.constrain.language import EMPTY, Grammars, Language
from unladen.sample.constrain.lexemes import escaped

_CLASSES: Final = {
    "CATEGORY_DIGIT": r"\p{Nd}", "CATEGORY_NOT_DIGIT": r"\P{Nd}",
    "CATEGORY_SPACE": r"\s", "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W"}
_ASCII_CLASSES: Final = {
    "CATEGORY_DIGIT": r"0-9", "CATEGORY_NOT_DIGIT": r"[^0-9]",
    "CATEGORY_SPACE": r"\t-\r ", "CATEGORY_NOT_SPACE": r"[^\t-\r ]",
    "CATEGORY_WORD": r"0-9A-Za-z_", "CATEGORY_NOT_WORD": r"[^0-9A-Za-z_]"}
"""What classes are called in Rust, with and without the flag ASCII."""
_UNKNOWN: Final = {
    "ASSERT": "look-around", "ASSERT_NOT": "look-around", "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition", "POSSESSIVE_REPEAT": "a possessive repetition",
    "ATOMIC_GROUP": "an atomic group", "AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}
"""What can't be written, by its name in Python's parser."""


@dataclass(frozen=True)
class Regex(Language):
    """Texts that match all of ``pattern``, an expression of Python's ``re`` without look-around,
    references, ``\\b`` and possessive parts. Raises :class:`InvalidArgument`."""

    pattern: str
    written: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Text("a regular expression").of("pattern", self.pattern)
        try:
            # The module that re itself uses; it has no public name.
            parser: Any = importlib.import_module("re._parser")
            with warnings.catch_warnings():  # about what later versions may read otherwise
                warnings.simplefilter("ignore")
                parsed = parser.parse(self.pattern)
            written = _Writer(self.pattern).all_of(parsed, parsed.state.flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgument(f"{shown(self.pattern)} isn't a regular expression: {error}",
                                  hint="Python's re describes them") from None
        object.__setattr__(self, "written", written)

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """One lexeme."""
        return {"lark_grammar": f"start: TEXT\nTEXT: /{self.written}/" if self.written
                else f"start: {EMPTY}"}

    def blamed(self, message: str) -> InvalidArgument:
        """For expressions that are too large."""
        return InvalidArgument(f"the regular expression {shown(self.pattern)} can't be compiled: "
                               f"{message}", hint="make it smaller")


class _Writer:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def all_of(self, parsed: Any, flags: int) -> str:
        """The whole expression: an anchor at either end says what holds anyway."""
        items = list(parsed)
        while items and self.is_anchor(items[0], "AT_BEGINNING", "AT_BEGINNING_STRING"):
            del items[0]
        while items and self.is_anchor(items[-1], "AT_END", "AT_END_STRING"):
            del items[-1]
        if len(items) == 1 and str(items[0][0]) == "BRANCH":
            return "(?:" + "|".join(self.all_of(part, flags) for part in items[0][1][1]) + ")"
        if len(items) == 1 and str(items[0][0]) == "SUBPATTERN":
            _, added, removed, part = items[0][1]
            return f"(?:{self.all_of(part, (flags | added) & ~removed)})"
        return self.joined(items, flags)

    def is_anchor(self, item: Any, *names: str) -> bool:
        return str(item[0]) == "AT" and str(item[1]) in names

    def joined(self, items: Iterable[Any], flags: int) -> str:
        return "".join(self.one(str(op), value, flags) for op, value in items)

    def one(self, op: str, value: Any, flags: int) -> str:
        if op == "LITERAL":
            return self.cased(escaped(value), flags)
        if op == "NOT_LITERAL":
            return self.cased(f"[^{escaped(value)}]", flags)
        if op == "ANY":
            return r"(?s:.)" if flags & re.DOTALL else r"[^\n]"
        if op == "IN":
            return self.cased(self.chars(value, flags), flags)
        if op == "BRANCH":
            return "(?:" + "|".join(self.joined(part, flags) for part in value[1]) + ")"
        if op in ("MAX_REPEAT", "MIN_REPEAT"):  # the same texts match in the end
            low, high, part = value
            most = "" if str(high) == "MAXREPEAT" else high
            return f"(?:{self.joined(part, flags)}){{{low},{most}}}"
        if op == "SUBPATTERN":
            _, added, removed, part = value
            return f"(?:{self.joined(part, (flags | added) & ~removed)})"
        if op == "AT" and str(value) not in _UNKNOWN:
            self.refuse("an anchor that isn't at an end of the expression")
        self.refuse(_UNKNOWN.get(str(value) if op == "AT" else op, op.lower()))

    def chars(self, items: Iterable[Any], flags: int) -> str:
        parts, inverted = [], ""
        for op, value in items:
            if str(op) == "NEGATE":
                inverted = "^"
            elif str(op) == "LITERAL":
                parts.append(escaped(value))
            elif str(op) == "RANGE":
                parts.append(f"{escaped(value[0])}-{escaped(value[1])}")
            else:
                classes = _ASCII_CLASSES if flags & re.ASCII else _CLASSES
                parts.append(classes[str(value)])
        return f"[{inverted}{''.join(parts)}]"

    def cased(self, written: str, flags: int) -> str:
        return f"(?i:{written})" if flags & re.IGNORECASE else written

    def refuse(self, what: str) -> NoReturn:
        raise InvalidArgument(f"the regular expression {shown(self.pattern)} has {what}, which "
                              "can't be compiled",
                              hint="write it without, and check the answer afterwards")
