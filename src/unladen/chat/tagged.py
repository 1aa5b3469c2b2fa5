"""The language of arguments that stand in tags one by one, from the schema of a tool.

Arguments come in the order of the schema, as properties do in JSON. A value of the type string is
raw text without the tag that ends it; others are JSON. Where a text could be read as a value of
another type that the schema allows, it has to fit that type.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unladen.chat.branches import Inexpressible, Schema, bounds, branches, members, rooted
from unladen.chat.forms import Parameters
from unladen.chat.json_text import PYTHON, quoted
from unladen.chat.marks import WHITE
from unladen.chat.notation import notation_value
from unladen.chat.parameters import BAD_KEY, CDATA, CDATA_END, MAX_KEY
from unladen.chat.values import Tools, typed
from unladen.errors import InvalidArgument
from unladen.sample.constrain.language import Grammars, Language
from unladen.sample.constrain.rules import (
    ANY_TEXT,
    Fixed,
    Piece,
    Rules,
    Sequences,
    TextUpTo,
    found_in,
    in_order,
    pattern_of,
)
from unladen.sample.constrain.schema import JsonSchema

_ROOT = frozenset(["type", "properties", "required", "additionalProperties"])
"""Keywords of a tool's own schema that arguments in tags keep to."""
_NUMBERS = frozenset(["type", "enum"])
"""Keywords of a number that a text beside it can't break."""
_OF_TEXT = frozenset(["type", "enum", "minLength", "maxLength", "pattern"])
"""Keywords of a string that raw text keeps to."""
_WORDS = {"boolean": ("True", "False"), "null": ("None",)}
"""Python's words for values: templates write them as str() does, and models write them, too."""
_OPENS = {"object": r"\{", "array": r"\["}
"""Expressions for the character that begins a JSON text of the type."""


def tagged_arguments(tool: str, schema: Schema, form: Parameters, after: str
                     ) -> tuple[Language, list[str]]:
    """(the language of the arguments of ``tool``, what it doesn't keep to). ``after``: what comes
    after the last argument. Raises :class:`Inexpressible` where nothing of the schema can be kept
    to."""
    made = _Arguments(tool, schema, form, after)
    return made.language(), made.notes


@dataclass(frozen=True, eq=False)
class NewName(Language):
    """``opening``, a name that isn't one of ``known``, and ``close``."""

    opening: str
    close: str
    known: Sequence[str]

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """One lexeme where no special token is in it, as the known names are."""
        name = r"/[\w.\-]{1,64}/"
        if self.known:
            name += f" & ~/{'|'.join(map(pattern_of, self.known))}/"
        if grammars.special_in(self.opening) or grammars.special_in(self.close):
            return {"lark_grammar": f"start: {grammars.literal(self.opening)} NAME "
                                    f"{grammars.literal(self.close)}\nNAME: {name}"}
        return {"lark_grammar": f"start: NAME\nNAME: /{pattern_of(self.opening)}/ ({name}) "
                                f"/{pattern_of(self.close)}/"}


@dataclass
class _Arguments:
    tool: str
    schema: Schema
    form: Parameters
    after: str
    notes: list[str] = field(default_factory=list)

    def language(self) -> Language:
        found = branches(self.schema, self.schema)
        root = found[0]
        unknown = sorted(root.keys() - _ROOT)
        if len(found) > 1 or unknown or not self.mark("k"):
            raise Inexpressible(
                "nothing ends its values" if not self.mark("k") else
                f"its schema has {unknown[0] if unknown else 'alternatives'}")
        properties, required = members(root)
        rules: dict[str, Sequences] = {}
        items: list[tuple[Sequence[Piece], bool]] = []
        for key, inner in properties.items():
            if not self.is_readable(key):
                if key in required:
                    raise Inexpressible(f"the name {key[:40]!r} can't be written in tags")
                self.note(key, "its name can't be written in tags, so it never comes")
                continue
            name = f"item{len(items)}"
            rules[name] = self.argument(key, inner)
            items.append(([name], key in required))
        more = self.more(root.get("additionalProperties", False), [*properties])
        if more:
            rules["more"] = more
        order = in_order(items, ["more"] if more else None, self.form.separator)
        return Rules({**order, **rules})

    def note(self, key: str, why: str) -> None:
        self.notes.append(f"{self.tool[:40]}: the argument {key[:40]!r} isn't held to its schema: "
                          f"{why}")

    def is_readable(self, key: str) -> bool:
        """Whether a parser finds the end of ``key``."""
        if not key or key != key.strip(WHITE) or len(key) > MAX_KEY or BAD_KEY.search(key):
            return False
        firsts = {re.split(rf"[{WHITE}]+", text.strip(WHITE))[0] for text, _ in
                  self.form.key_closes}
        closes = [text for text, _ in self.form.key_closes]
        return all(min((at for first in firsts if (at := (key + close).find(first)) >= 0),
                       default=-1) == len(key) for close in closes)

    def close(self, key: str) -> str:
        """The text after a value."""
        text = key.join(self.form.value_close)
        return text if self.form.has_lines or not text.strip(WHITE) else text.lstrip(WHITE)

    def mark(self, key: str) -> str:
        """The text that ends a value."""
        close = self.close(key)
        return close.strip(WHITE) or ("\n" if "\n" in close else "")

    def more(self, schema: Any, known: Sequence[str]) -> Sequences:
        """Arguments that the schema doesn't list: names that aren't ``known``."""
        if schema is False:
            return []
        if len(self.form.value_close) > 1:
            self.notes.append(f"{self.tool[:40]}: arguments that aren't in its properties "
                              "can't be written in tags with names, so they never come")
            return []
        return self.argument("", True if schema is None else schema, known)

    def argument(self, key: str, schema: Any, known: Sequence[str] | None = None) -> Sequences:
        """Sequences for an argument and its value. ``known``: the name is any other than these, in
        place of ``key``."""
        kinds = {kind: text for text, kind in self.form.key_closes}
        if "literal" in kinds:
            raise Inexpressible("its values are written as literals")
        text_kind, json_kind = (("string", "json") if {"string", "json"} <= kinds.keys()
                                else ("raw", "raw") if "raw" in kinds else ("", ""))
        if not text_kind:
            raise Inexpressible("its values are written in an unknown way")
        value = _Value(self, key, schema, text_kind == "raw")

        def name(kind: str) -> Piece:
            if known is not None:
                return NewName(self.form.key_open, kinds[kind], known)
            return Fixed(self.form.key_open + key + kinds[kind])
        texts, others = value.made()
        if text_kind == json_kind:
            texts, others = [*texts, *others], []
        return [[name(kind), *each] for kind, found in ((text_kind, texts), (json_kind, others))
                for each in found]


class _Value:
    """The value of an argument. ``is_raw``: the text doesn't say its type; a parser finds it out.
    """

    def __init__(self, arguments: _Arguments, key: str, schema: Any, is_raw: bool) -> None:
        self._arguments, self._key, self._schema, self._is_raw = arguments, key, schema, is_raw
        self._form = arguments.form
        self._root = arguments.schema
        self._types = Tools({arguments.tool: arguments.schema}).types(arguments.tool, key)
        self._close, self._mark = arguments.close(key), arguments.mark(key)

    def made(self) -> tuple[list[list[Piece]], list[list[Piece]]]:
        """Sequences for texts, and for other values."""
        try:
            parts = branches(self._schema, self._root)
            if all(_cannot_be_text(part) for part in parts):
                return [], self._others(parts)
            return self._with_texts(parts)
        except Inexpressible as why:
            if self._types and "string" not in self._types and not self._form.is_escaped:
                return [], self._json(self._schema)
            self._arguments.note(self._key, str(why))
            return self._free(), [] if self._is_raw else self._json({})

    def _others(self, parts: Sequence[Schema]) -> list[list[Piece]]:
        """Values that are no texts: the whole schema at once, which llguidance knows best."""
        if self._form.is_escaped and any(
                part.get("type") not in ("integer", "number", "boolean", "null")
                or "enum" in part for part in parts):
            raise Inexpressible("JSON is written with escapes")
        words = [word for part in parts if self._is_raw and "enum" not in part
                 for word in _WORDS.get(str(part.get("type")), ())]
        return self._json(self._schema) + [[Fixed(word + self._close)] for word in words]

    def _json(self, schema: Any) -> list[list[Piece]]:
        value = JsonSchema(rooted(schema, self._root))
        found: list[list[Piece]] = [[value, Fixed(self._close)]]
        if self._form.has_reprs:
            literal, notes = notation_value(self._arguments.tool, schema, self._root, PYTHON)
            if not notes:  # what JSON is held to, a literal must be held to as well
                found.append([literal, Fixed(self._close)])
        if self._form.has_cdata:
            found += [[Fixed(CDATA), *each[:-1], Fixed(CDATA_END + self._close)]
                      for each in [*found]]
        return found

    def _with_texts(self, parts: Sequence[Schema]) -> tuple[list[list[Piece]], list[list[Piece]]]:
        texts: list[list[Piece]] = []
        others: list[list[Piece]] = []
        free = [p for p in parts if "enum" not in p and p.get("type") in ("string", None)]
        kinds = {str(p.get("type")) for p in parts if "enum" not in p}
        if any("type" not in part for part in free):
            self._unknown([part for part in free if "type" not in part])
            return self._free(), [] if self._is_raw else self._json({})
        if free:
            unlike = [rf"\s*{_OPENS[kind]}{ANY_TEXT}" for kind in _OPENS if kind in kinds
                      ] if self._is_raw else []
            texts += [s for part in free for s in self._text(part, unlike)]
        for part in parts:
            if "enum" in part:
                self._values(part["enum"], texts, others, is_free=bool(free))
            elif part not in free:
                others += self._other(part, beside_text=bool(free))
        if not texts and not others:
            raise Inexpressible("none of its values can be written")
        return texts, others

    def _unknown(self, parts: Sequence[Schema]) -> None:
        words = sorted({word for part in parts for word in part})
        if words:
            self._arguments.note(self._key, f"{words[0]} stands without a type")

    def _other(self, part: Schema, *, beside_text: bool) -> list[list[Piece]]:
        """Values of one type beside texts."""
        kind = part.get("type")
        if self._is_raw and beside_text and kind not in _OPENS:
            # Every such value is a text as well, and is read as the value.
            words = sorted(part.keys() - _NUMBERS)
            if words:
                self._arguments.note(self._key, f"{words[0]} of a {kind} beside a string")
            return []
        if self._form.is_escaped and kind in _OPENS:
            raise Inexpressible("JSON is written with escapes")
        own = _WORDS.get(str(kind), ()) if self._is_raw else ()
        return self._json(part) + [[Fixed(word + self._close)] for word in own]

    def _text(self, part: Schema, unlike: list[str]) -> list[list[Piece]]:
        """Raw texts of a schema of the type string."""
        for word in sorted(part.keys() - _OF_TEXT):
            self._arguments.note(self._key, f"{word} can't be kept to in raw text")
        least, most = bounds(part, "minLength", "maxLength")
        like: list[str] = []
        if least or most is not None:
            like.append(f"(?s:.{{{least},{'' if most is None else most}}})")
        if "pattern" in part:
            try:
                like.append(found_in(part["pattern"]))
            except InvalidArgument as error:
                self._arguments.note(self._key, f"pattern: {error.message}")
        if like and self._form.is_escaped:
            self._arguments.note(self._key, "lengths and patterns of text with escapes")
            like = []
        return self._free(like, unlike, may_be_empty=not (least or "pattern" in part))

    def _free(self, like: Sequence[str] = (), unlike: Sequence[str] = (), *,
              may_be_empty: bool = True) -> list[list[Piece]]:
        """Any text that fits the expressions, and what ends it."""
        # Without a line break before the mark a text is read in the same way.
        close = self._close if like and self._form.has_lines else self._close.lstrip(
            WHITE) or self._close
        if not self._form.has_cdata:
            return [[TextUpTo(self._mark, close, like, unlike, may_be_empty)]]
        inner = TextUpTo(CDATA_END + self._mark, CDATA_END + close, like, (), may_be_empty)
        bare = [*unlike, pattern_of(CDATA) + ANY_TEXT]
        return [[TextUpTo(self._mark, close, like, bare, may_be_empty)], [Fixed(CDATA), inner]]

    def _values(self, values: Sequence[Any], texts: list[list[Piece]],
                others: list[list[Piece]], *, is_free: bool) -> None:
        """Values that an ``enum`` lists, those that a parser reads as what they are."""
        for value in values:
            if not isinstance(value, str):
                if not (is_free and self._is_raw):
                    others += [[Fixed(word + self._close)] for word in self._words_of(value)]
                continue
            if is_free:
                continue  # one of the texts that may come anyway
            written = [each for each in self._written(value)
                       if not self._is_raw or typed(value, self._types) == f'"{quoted(value)}"']
            if not written:
                self._arguments.note(self._key, f"the text {value[:40]!r} can't be written in "
                                                "tags, so it never comes")
            texts += [[Fixed(each)] for each in written]

    def _words_of(self, value: Any) -> list[str]:
        words = [json.dumps(value, ensure_ascii=False)]
        if self._is_raw and (value is None or isinstance(value, bool)):
            words.append(str(value))
        return words

    def _written(self, value: str) -> list[str]:
        """The ways to write a text that is given."""
        found = []
        if self._form.has_cdata and CDATA_END not in value:
            found.append(CDATA + value + CDATA_END + self._close)
        plain = [value]
        if self._form.is_escaped:
            named = html.escape(value, quote=False)
            plain = [*dict.fromkeys([
                named, html.escape(value), named.replace('"', "&#34;").replace("'", "&#39;")])]
        follows = [text for text in (
            self._form.key_open.strip(WHITE), self._form.separator.strip(WHITE),
            self._arguments.after.strip(WHITE)[:4]) if text]
        for text in plain:
            # A mark inside a text ends it only where an argument or the end of the call follows.
            rests = [(rest + self._close).lstrip(WHITE) for rest in _rests(text, self._mark)]
            starts_well = not (self._form.has_cdata and text.startswith(CDATA))
            is_inner = bool(self._form.key_open.strip(WHITE)) and not any(
                rest.startswith(tuple(follows)) for rest in rests)
            if starts_well and (not rests or is_inner):
                found.append(text + self._close)
        return found


def _rests(text: str, mark: str) -> list[str]:
    """The rest of ``text`` after each ``mark`` in it."""
    starts = [match.start() for match in re.finditer(f"(?={re.escape(mark)})", text)]
    return [text[start + len(mark):] for start in starts]


def _cannot_be_text(part: Schema) -> bool:
    if "enum" in part:
        return not any(isinstance(value, str) for value in part["enum"])
    return "type" in part and part["type"] != "string"

