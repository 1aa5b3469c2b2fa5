"""How a dialect writes tool calls, as data: marks, and the parts of a call between them.

Texts stand as the model writes them, white space included. Parsers ignore white space around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from unladen.chat.json_text import JSON, Syntax

ID_HERE = "\0"
"""Stands for an id in the texts of :class:`JsonCalls`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that always stands here, or may be missing."""

    text: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """The tool's name."""


@dataclass(frozen=True, slots=True)
class Id:
    """The call's id. ``is_optional``: ``before`` and the id may be missing together."""

    before: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class IdWithName:
    """An id that holds the tool's name: ``functions.NAME:0``."""

    before: str = "functions."


@dataclass(frozen=True, slots=True)
class Index:
    """The number of the call in this answer, counted from ``first``."""

    first: int = 0


@dataclass(frozen=True, slots=True)
class Again:
    """The tool's name or the call's id once more: ``what`` is "name" or "id"."""

    what: str = "name"


@dataclass(frozen=True, slots=True)
class Skip:
    """A word that says nothing about the call."""

    usual: str = "function"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments as one object in ``syntax``."""

    syntax: Syntax = JSON


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """One JSON object that is a call, or a list of them.

    names, arguments, ids: keys under which they stand. wrapper: a key whose object holds them.
    name_is_key: the object is ``{"NAME": {..}}``. id_comes_last: the id stands behind arguments.
    before, between, after: how the model writes a call around name and arguments; ``opening``,
    ``separator``, ``closing``: around and between calls.
    """

    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    ids: tuple[str, ...] = ("id",)
    wrapper: str = "function"
    name_is_key: bool = False
    id_comes_last: bool = False
    before: str = '{"name": "'
    between: str = '", "arguments": '
    after: str = "}"
    opening: str = ""
    separator: str = ""
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Arguments one by one: ``key_open KEY key_close VALUE value_close``.

    key_closes: (text, kind) that end a key; the kind says what the value is: "raw" (typed by the
    schema), "string", "json", or "literal" (a value of Python or JSON that ends by itself).
    value_close: its pieces are joined by the key
    (``("</", ">")`` for ``</KEY>``). key_skips: a word, such as a type, and this text stand between
    key_open and KEY. has_lines: a line break on either side isn't part of a value.
    has_cdata: a value may be ``<![CDATA[..]]>``. is_escaped: values have ``&lt;`` and so on.
    separator: what may stand between two arguments. has_reprs: objects and lists may be written as
    Python's literals.
    """

    key_open: str
    key_closes: tuple[tuple[str, str], ...]
    value_close: tuple[str, ...]
    key_skips: str = ""
    has_lines: bool = False
    has_cdata: bool = False
    is_escaped: bool = False
    separator: str = ""
    has_reprs: bool = False


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Calls in Python: ``[f(a=1), g()]`` or one without brackets; ``suffix`` may end a name."""

    suffix: str = ""


@dataclass(frozen=True, slots=True)
class PythonTag:
    """What may follow ``<|python_tag|>``: a JSON object, ``NAME.call(..)``, or code that goes on to
    the end of the answer. ``default``: the tool that runs code if none for it was offered; ""
    means that such code is text."""

    default: str = ""


Part: TypeAlias = (Literal | Name | Id | IdWithName | Index | Again | Skip | Arguments | JsonCalls
                   | Parameters | PythonCalls | PythonTag)
"""A part of a call."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """How calls are written: ``section_begin (begin parts end) separator .. section_end``.

    begin, section_begin: marks at which an answer turns into calls. Both "" means that a call has
    no mark: it stands at the start of an answer, and counts only for a tool that was offered.
    other_begins: marks that models write instead. needs_offered: a call of a tool that wasn't
    offered is text. at_start: the prompt ends in ``begin``, so an answer may be a call at once.
    """

    parts: tuple[Part, ...]
    begin: str = ""
    end: str = ""
    section_begin: str = ""
    section_end: str = ""
    separator: str = ""
    other_begins: tuple[str, ...] = ()
    needs_offered: bool = False
    at_start: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks at which an answer turns into calls."""
        return tuple(mark.strip() for mark in
                     (self.section_begin, self.begin, *self.other_begins) if mark.strip())

    @property
    def has_section(self) -> bool:
        """Whether a mark stands around all calls."""
        return bool(self.section_begin.strip())
