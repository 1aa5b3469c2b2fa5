"""The language of arguments that are written in a notation other than JSON, from a tool's schema.

Examples are Python's literals, and strings between marks of their own. Numbers, enumerations,
lengths of strings and of lists, objects, alternatives and references are kept to; other keywords
are named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unladen.chat.branches import Inexpressible, Schema, bounds, branches, members
from unladen.chat.json_text import MAX_SCALAR, Syntax, as_json
from unladen.chat.marks import WHITE
from unladen.chat.values import NULL
from unladen.errors import InvalidArgument
from unladen.sample.constrain.language import Language
from unladen.sample.constrain.rules import (
    START,
    Fixed,
    Piece,
    Rules,
    Sequences,
    TextUpTo,
    found_in,
    in_order,
)
from unladen.sample.constrain.schema import JsonSchema

NAME = re.compile(r"[\w.\-]+")
"""Matches a name that an argument may have in a call in Python."""
MAX_NAME = 256
"""Characters that such a name may have."""
_NUMBER = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
_KEPT: Mapping[str, frozenset[str]] = {
    "string": frozenset(["minLength", "maxLength"]), "integer": _NUMBER, "number": _NUMBER,
    "array": frozenset(["items", "minItems", "maxItems"]),
    "object": frozenset(["properties", "required", "additionalProperties"])}
"""Keywords of each type that are kept to."""
_BARE_KEY = re.compile(r"[^\s:,{}\[\]\"'<>|][^:,{}\[\]\"'<>|\n]*")
"""A key that may stand without quotes."""
_ESCAPED: Mapping[str, str] = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}
"""Characters that strings in quotes have as escapes."""
_ANY = "any"
"""The rule for any value."""


def notation_arguments(tool: str, schema: Schema, syntax: Syntax, *, are_keywords: bool
                       ) -> tuple[Language, list[str]]:
    """(the language of the arguments of ``tool``, what it doesn't keep to). ``are_keywords``:
    arguments stand as ``name=value``, without brackets. Raises :class:`Inexpressible` where nothing
    of the schema can be kept to."""
    made = _Notation(tool, schema, syntax)
    found = branches(schema, schema)
    if len(found) > 1:
        raise Inexpressible("its schema has alternatives")
    if are_keywords:
        made.members(found[0], START, "=", made.keyword)
    else:
        made.rules[START] = [[made.value(schema)]]
    return Rules({START: made.rules.pop(START), **made.rules}), made.notes


def notation_value(tool: str, schema: Any, root: Schema, syntax: Syntax
                   ) -> tuple[Language, list[str]]:
    """As :func:`notation_arguments`, for one value: ``schema`` is a part of ``root``, the schema of
    ``tool``."""
    made = _Notation(tool, root, syntax)
    rule = made.value(schema)
    return Rules({START: [[rule]], **made.rules}), made.notes


class _Notation:
    def __init__(self, tool: str, root: Schema, syntax: Syntax) -> None:
        self.rules: dict[str, Sequences] = {}
        self.notes: list[str] = []
        self._tool, self._root, self._syntax = tool, root, syntax
        self._names: dict[str, str] = {}
        self._comma, self._colon = syntax.comma, syntax.colon

    def note(self, what: str) -> None:
        note = f"the arguments of {self._tool[:40]!r} aren't held to {what}"
        if note not in self.notes:
            self.notes.append(note)

    def value(self, schema: Any) -> str:
        """The rule for a value that fits ``schema``."""
        key = json.dumps(schema)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"v{len(self._names)}"
            try:
                self.rules[name] = [
                    sequence for i, part in enumerate(branches(schema, self._root))
                    for sequence in self._of(part, f"{name}_{i}")]
            except Inexpressible as why:
                self.note(f"a schema in it: {why}")
                self.rules[name] = [[self._any()]]
        return name

    def _of(self, part: Schema, name: str) -> list[list[Piece]]:
        if "enum" in part:
            return [[Fixed(text)] for value in part["enum"] for text in self.ways(value)]
        kind = part.get("type") or next((kind for kind, words in _KEPT.items()
                                         if words & part.keys()), None)
        others = sorted(part.keys() - _KEPT.get(str(kind), frozenset()) - {"type"} - (
            {"pattern"} if self._has_marks else set()))
        if others:
            self.note(f"{others[0]}")
        if kind in ("integer", "number"):
            return [[JsonSchema({key: value for key, value in part.items()
                                 if key in _NUMBER} | {"type": kind})]]
        if kind in ("boolean", NULL):
            return [[Fixed(word)] for word, value in self._syntax.words
                    if (value == NULL) == (kind == NULL)]
        if kind == "object":
            self.members(part, name, self._colon, self.key)
            return [[Fixed("{"), name, Fixed("}")]]
        if kind in ("string", "array"):
            return self._string(part) if kind == "string" else self._list(part)
        return [[self._any()]]

    @property
    def _has_marks(self) -> bool:
        """Whether strings are raw text between marks."""
        return not self._syntax.escapes

    def _string(self, part: Schema) -> list[list[Piece]]:
        least, most = bounds(part, "minLength", "maxLength")
        count = f"{{{least},{'' if most is None else most}}}"
        if not self._has_marks:
            return [[f"/{_quoted(quote, count)}/"] for quote in self._syntax.quotes]
        mark = self._syntax.quotes[0]
        like = [f"(?s:.{count})"] if least or most is not None else []
        try:
            like += [found_in(part["pattern"])] if "pattern" in part else []
        except InvalidArgument as error:
            self.note(f"pattern: {error.message}")
        may_be_empty = not least and "pattern" not in part
        return [[Fixed(mark), TextUpTo(mark, mark, like, (), may_be_empty)]]

    def _list(self, part: Schema) -> list[list[Piece]]:
        least, most = bounds(part, "minItems", "maxItems")
        item = self.value(part.get("items", True))
        found: list[list[Piece]] = [] if least else [[Fixed("["), Fixed("]")]]
        if most is None or most > 0:
            high = "" if most is None else max(most, least) - 1
            more = f"({json.dumps(self._comma)} {item}){{{max(least - 1, 0)},{high}}}"
            found.append([Fixed("["), item, more, Fixed("]")])
        return found

    def members(self, part: Schema, name: str, colon: str, write: Callable[[str], list[str]]
                ) -> None:
        """Rules, the first of which is ``name``, for the members of an object. ``write``: the ways
        to write a member's name."""
        known, required = members(part)
        properties = [*known.items()]
        if self._syntax.sorts_keys:
            properties.sort(key=lambda each: each[0].lower())
        items: list[tuple[Sequence[Piece], bool]] = []
        for key, inner in properties:
            if texts := write(key):
                self.rules[rule := f"{name}_k{len(items)}"] = [
                    [Fixed(text + colon)] for text in texts]
                items.append(([rule, self.value(inner)], key in required))
            elif key in required:
                raise Inexpressible(f"the name {key[:40]!r} can't be written")
            else:
                self.note(f"the name {key[:40]!r}, which can't be written and never comes")
        more: list[Piece] | None = None
        rest = part.get("additionalProperties", not properties)
        if rest is not False and not items:
            more = [r"/[A-Za-z_]\w{0,63}/" if write("a") == ["a"] else f"/{_quoted(_Q, '{1,64}')}/",
                    Fixed(colon), self.value(rest)]
        elif rest is not False:  # no rule tells them from known names
            self.note("names that its schema doesn't list: these never come")
        self.rules.update(in_order(items, more, self._comma, name))

    def key(self, name: str) -> list[str]:
        """The ways to write a key of an object."""
        if not self._syntax.has_bare_keys:
            return self.ways(name)
        is_bare = _BARE_KEY.fullmatch(name) and name == name.strip(WHITE) and len(
            name) < MAX_SCALAR
        return [name] if is_bare else []

    def keyword(self, name: str) -> list[str]:
        """The name of an argument in a call."""
        return [name] if NAME.fullmatch(name) and len(name) <= MAX_NAME else []

    def ways(self, value: Any) -> list[str]:
        """The ways to write ``value``. Raises :class:`Inexpressible`."""
        if isinstance(value, str) and not self._has_marks:
            return [self.written(value, quote) for quote in self._syntax.quotes]
        words = [word for word, ours in self._syntax.words if ours == json.dumps(value)]
        return words or [self.written(value)]

    def written(self, value: Any, quote: str = "") -> str:
        """``value`` as it is written. Raises :class:`Inexpressible`."""
        if isinstance(value, str):
            quote = quote or self._syntax.quotes[0 if self._has_marks else -1]
            inner = value if self._has_marks else "".join(
                _ESCAPED.get(c, "\\" + c if c == quote else c) for c in value)
            if self._has_marks and quote in value:
                raise Inexpressible(f"the text {value[:40]!r} can't be written")
            text = quote + inner + quote
        elif isinstance(value, list):
            text = "[" + self._comma.join(map(self.written, value)) + "]"
        elif isinstance(value, Mapping):
            members = [(self.key(key)[-1:], self.written(inner)) for key, inner in value.items()]
            text = "{" + self._comma.join(f"{''.join(key)}{self._colon}{inner}"
                                          for key, inner in members) + "}"
        else:
            found = json.dumps(value)
            words = [word for word, ours in self._syntax.words if ours == found]
            text = words[-1] if words and not self._has_marks else found
        read = as_json(text, self._syntax)
        if read is None or json.loads(read) != value:
            raise Inexpressible(f"the value {json.dumps(value)[:40]} can't be written")
        return text

    def _any(self) -> str:
        """The rule for any value."""
        if _ANY not in self.rules:
            self.rules[_ANY] = []
            kinds = [self.value({"type": kind}) for kind in (
                "string", "number", "boolean", NULL, "array", "object")]
            self.rules[_ANY] = [[kind] for kind in kinds]
        return _ANY


_Q = '"'
"""The quote of a key that isn't known."""


def _quoted(quote: str, count: str) -> str:
    """An expression for a string in ``quote``, with ``count`` characters in it."""
    return (rf"{quote}([^{quote}\\\x00-\x1F\x7F]|\\[nrt\\'\"]|\\x[2-7][0-9a-f])"
            rf"{'*' if count == '{0,}' else count}{quote}")
