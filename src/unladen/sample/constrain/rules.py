"""Languages that are written as rules: texts, other languages and each other's names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from unladen.errors import InvalidArgument
from unladen.sample.constrain.language import EMPTY, Grammars, Language
from unladen.sample.constrain.lexemes import escaped
from unladen.sample.constrain.regex import Regex

START = "start"
"""The rule of a whole text."""


@dataclass(frozen=True)
class Fixed:
    """One text in a rule; the names of special tokens in it are these tokens."""

    text: str


Piece: TypeAlias = str | Fixed | Language
"""A piece of a rule: a rule's name or another Lark expression, a text, or a language."""
Sequences: TypeAlias = Sequence[Sequence[Piece]]
"""The alternatives of a rule: sequences of pieces, one of which is taken."""


@dataclass(frozen=True, eq=False)
class Rules(Language):
    """The texts of the rule :data:`START` in ``rules``."""

    rules: Mapping[str, Sequences]

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """The same rules in Lark."""
        return {"lark_grammar": "\n".join(
            f"{name}: " + " | ".join(_written(pieces, grammars) for pieces in sequences)
            for name, sequences in self.rules.items())}


def _written(pieces: Sequence[Piece], grammars: Grammars) -> str:
    return " ".join(
        piece if isinstance(piece, str) else
        grammars.name_of(piece) if isinstance(piece, Language) else
        grammars.literal(piece.text) for piece in pieces if piece != Fixed("")) or EMPTY


def in_order(items: Sequence[tuple[Sequence[Piece], bool]], more: Sequence[Piece] | None = None,
             separator: str = "", start: str = START) -> dict[str, Sequences]:
    """Rules, the first of which is ``start``, for ``items`` in their order, each (pieces, whether
    it has to come), then any number of ``more``, with a ``separator`` between two."""
    rules: dict[str, Sequences] = {}
    # "a" rules: nothing was written yet. "b" rules: something was, so a separator comes first.
    names = [(start if i == 0 else f"{start}_a{i}", f"{start}_b{i}") for i in range(len(items) + 1)]
    between = Fixed(separator)
    for i, (pieces, is_required) in enumerate(items):
        for lead, name, skipped in (([], names[i][0], names[i + 1][0]),
                                    ([between], names[i][1], names[i + 1][1])):
            taken = [*lead, *pieces, names[i + 1][1]]
            rules[name] = [taken] if is_required else [taken, [skipped]]
    first, later = names[-1]
    rules[first] = [[]] if more is None else [[], [*more, later]]
    rules[later] = [[]] if more is None else [[], [between, *more, later]]
    return rules


@dataclass(frozen=True, eq=False)
class TextUpTo(Language):
    """Any text without ``mark``, then ``close``, which has the mark.

    like, unlike: expressions in llguidance's syntax, all of which the text before ``close`` has to
    match as a whole, and none of which it may. may_be_empty: whether the empty text is like these.
    """

    mark: str
    close: str
    like: Sequence[str] = ()
    unlike: Sequence[str] = ()
    may_be_empty: bool = True

    @property
    def ways_on(self) -> Sequence[str]:
        """The text after it."""
        return (self.close,)

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """One lexeme, so that all of the text is compared with ``like`` and ``unlike``."""
        head, special, rest = self.close.partition(grammars.special_in(self.close) or "\0")
        unlike = [*self.unlike]
        if not special or special not in self.mark:
            unlike.append(f"{ANY_TEXT}{pattern_of(self.mark)}{ANY_TEXT}")
        text = " & ".join([f"/{ANY_TEXT}/", *(f"/{each}/" for each in self.like),
                           *(f"~/{each}/" for each in unlike)])
        end = f" /{pattern_of(head)}/" if head else ""
        value = "VALUE?" if self.may_be_empty and not head else "VALUE"
        return {"lark_grammar": f"start: {value} {grammars.literal(special + rest)}\n"
                                f"VALUE: ({text}){end}"}


ANY_TEXT = r"(?s:.*)"
"""An expression for any text."""


def pattern_of(text: str) -> str:
    """An expression for ``text`` alone."""
    return "".join(escaped(ord(c)) for c in text)


def found_in(pattern: str) -> str:
    """An expression in llguidance's syntax for texts in which ``pattern`` is found, as JSON schemas
    mean it. Raises :class:`InvalidArgument`."""
    if not isinstance(pattern, str):
        raise InvalidArgument("it isn't a text")
    begins = pattern.startswith("^")
    ends = pattern.endswith("$") and not pattern.endswith("\\$")
    if (begins or ends) and "|" in _GROUPS.sub("", pattern):
        raise InvalidArgument("anchors beside an alternative can't be kept to")
    inner = Regex(pattern[begins:len(pattern) - ends]).written
    return f"{'' if begins else ANY_TEXT}(?:{inner}){'' if ends else ANY_TEXT}"


_GROUPS = re.compile(r"\\.|\[[^\]]*\]|\([^()]*\)")
"""Parts of an expression in which an alternative ends with the part."""
