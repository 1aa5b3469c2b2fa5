"""Finds what a template writes for a call's arguments: JSON, a literal, or arguments one by one."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from unladen.chat.forms import ID_HERE, Arguments, JsonCalls, Parameters, Part
from unladen.chat.json_text import PYTHON
from unladen.chat.marks import WHITE
from unladen.chat.probing import (
    KEYS,
    VALUES,
    Call,
    Probe,
    marks_at_end,
    same_end,
    same_start,
)

MAX_STARTS = 64
"""Places at which JSON is looked for: bounds the work with a template that attacks."""
_DECODER = json.JSONDecoder()
_OPENERS = re.compile(r"[<\[({]")
_MARKUP = "zq<a&b"
"""A value that markup has to escape."""


@dataclass(frozen=True, slots=True)
class Body:
    """Where a text has the arguments of a call, and how they are written."""

    start: int
    end: int
    part: Part

    @property
    def has_name(self) -> bool:
        """Whether the tool's name is part of it."""
        return isinstance(self.part, JsonCalls)


def find_body(text: str, call: Call, probe: Probe) -> Body | None:
    """The arguments of ``call`` in ``text``, which has both of :data:`KEYS`; None if they are
    written in a way that isn't understood."""
    return _json_body(text, call) or _literal_body(text, call) or _parameters(text, probe)


def same_body(text: str, at: int, call: Call, body: Body) -> tuple[int, int] | None:
    """(start, end) of the arguments of ``call``, which are of the form of ``body``, from ``at`` on.
    If they stand one by one, the call has a single argument."""
    if isinstance(body.part, Parameters):
        return _one_parameter(text, at, call, body.part)
    found = _json_body(text[at:], call) or _literal_body(text[at:], call)
    return (at + found.start, at + found.end) if found else None


def _json_body(text: str, call: Call) -> Body | None:
    for start, end, value in _json_in(text, r"[{\[]"):
        if value == call.arguments:
            return Body(start, end, Arguments())
        if (form := _json_calls(text[start:end], value, call)) is not None:
            return Body(start, end, form)
    return None


def _json_in(text: str, first: str, at: int = 0) -> Iterator[tuple[int, int, Any]]:
    """(start, end, value) of JSON in ``text`` that begins with what matches ``first``."""
    for match in itertools.islice(re.finditer(first, text), MAX_STARTS):
        if match.start() >= at:
            try:
                value, end = _DECODER.raw_decode(text, match.start())
            except (ValueError, RecursionError):
                continue  # no JSON begins here, or none that a call has
            yield match.start(), end, value


def _json_calls(text: str, value: Any, call: Call) -> JsonCalls | None:
    item = value[0] if isinstance(value, list) and value else value
    found = _keys(item, call)
    if found is None:
        return None
    form = JsonCalls(**found)
    if isinstance(value, list):
        inner = text[1:-1].strip(WHITE)
        lead = text[:text.index(inner[0], 1)]
        form = replace(form, opening=lead, closing=text[len(lead) + len(inner):], separator=", ")
        text = inner
    name, arguments = text.index(call.name), _arguments_at(text, call)
    if arguments is None or not name < arguments[0]:
        return form
    before = text[:name].replace(call.id, ID_HERE)
    after = text[arguments[1]:].replace(call.id, ID_HERE)
    return replace(form, before=before, after=after, id_comes_last=ID_HERE in after,
                   between=text[name + len(call.name):arguments[0]])


def _arguments_at(text: str, call: Call) -> tuple[int, int] | None:
    return next(((start, end) for start, end, value in _json_in(text, r"\{", 1)
                 if value == call.arguments), None)


def _keys(item: Any, call: Call, depth: int = 0) -> dict[str, Any] | None:
    """Under which keys of ``item`` name, arguments and id stand."""
    if not isinstance(item, Mapping) or depth > 2:
        return None
    if call.name in item and _is_arguments(item[call.name], call):
        return {"name_is_key": True}
    names = tuple(k for k, v in item.items() if v == call.name)
    arguments = tuple(k for k, v in item.items() if _is_arguments(v, call))
    ids = tuple(k for k, v in item.items() if v == call.id)
    if names and arguments:
        return {"names": names[:1], "arguments": arguments[:1], "ids": ids or ("id",)}
    for key, inner in item.items():
        if (found := _keys(inner, call, depth + 1)) is not None and "name_is_key" not in found:
            return found | {"wrapper": key, "ids": ids or found["ids"]}
    return None


def _is_arguments(value: Any, call: Call) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return bool(value == call.arguments)


def _literal_body(text: str, call: Call) -> Body | None:
    written = repr(dict(call.arguments))
    at = text.find(written)
    return None if at < 0 else Body(at, at + len(written), Arguments(PYTHON))


def _parameters(text: str, probe: Probe) -> Body | None:
    """Arguments one by one, found by two of them: what is the same around both."""
    places = _places(text)
    if places is None:
        return None
    (key0, value0), (key1, value1) = places
    close0 = text[value0 + len(VALUES[0]):key1].replace(KEYS[0], "\x04")
    close1 = text[value1 + len(VALUES[1]):].replace(KEYS[1], "\x04")
    middle = text[key0 + len(KEYS[0]):value0]
    if middle != text[key1 + len(KEYS[1]):value1] or not middle:
        return None
    opening = _opening(close0, text[:key0])
    closing = _closing(close0[:len(close0) - len(opening)], close1)
    separator = close0[len(closing):len(close0) - len(opening)]
    if not opening and separator.strip(WHITE) and text[:key0].endswith(separator):
        opening, separator = separator, ""
    part = _styled(Parameters(opening, ((middle, "raw"),), tuple(closing.split("\x04")),
                              separator=separator), probe)
    if not (opening + closing + separator).strip(WHITE) and "\n" not in closing:
        return None
    end = value1 + len(VALUES[1]) + len(KEYS[1].join(closing.split("\x04")))
    return Body(key0 - len(opening), end, part)


def _places(text: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the two keys and their values are; the keys must come before the values."""
    at, found = 0, []
    for key, value in zip(KEYS, VALUES, strict=True):
        key_at = text.find(key, at)
        value_at = text.find(value, key_at)
        if key_at < 0 or value_at < 0:
            return None
        found.append((key_at, value_at))
        at = value_at + len(value)
    return found[0], found[1]


def _opening(between: str, before: str) -> str:
    """What begins an argument: the end of ``between`` two of them, from a mark's start on, if the
    text ``before`` the first ends in the same."""
    opening = marks_at_end(between, same_end(between, before))
    match = _OPENERS.search(opening)
    return opening[match.start():] if match else ""


def _closing(between: str, after: str) -> str:
    """What ends a value: the beginning of ``between`` two arguments that also comes ``after`` the
    last."""
    closing = same_start(between, after)
    cut = closing.rfind("<")
    if cut > closing.rfind(">") and len(closing) < len(between):
        closing = closing[:cut]
    return closing


def _styled(part: Parameters, probe: Probe) -> Parameters:
    """``part`` with what other values show: quotes, escapes, line breaks, attributes by type."""
    (middle, _), = part.key_closes
    close = part.value_close[0]
    quote = middle[-1] if middle[-1] in "\"'" and close.startswith(middle[-1]) else ""
    number = probe.called(Call({KEYS[0]: 71077})) or ""
    at = number.find(KEYS[0]) + len(KEYS[0])
    middle_7 = number[at:number.find("71077", at)] if "71077" in number else middle
    if quote and middle_7 != middle:
        return replace(part, key_closes=((middle[:-1], "literal"),),
                       value_close=(close[1:], *part.value_close[1:]))
    if middle_7 != middle:
        part = replace(part, key_closes=((middle, "string"), (middle_7, "json")))
    typed = re.fullmatch(r"([<\[({].*?[\"'])\w+([\"'].*)", part.key_open)
    if typed and re.search(f"{re.escape(typed[1])}\\w+{re.escape(typed[2])}{KEYS[0]}", number):
        part = replace(part, key_open=typed[1], key_skips=typed[2])
    markup = probe.called(Call({KEYS[0]: _MARKUP})) or ""
    return replace(part, has_cdata=f"<![CDATA[{_MARKUP}]]>" in markup,
                   is_escaped=html.escape(_MARKUP) in markup,
                   has_lines=middle.endswith("\n") and close.startswith("\n"))


def _one_parameter(text: str, at: int, call: Call, part: Parameters) -> tuple[int, int] | None:
    (key, value), = call.arguments.items()
    key_at = text.find(key, at)
    value_at = text.find(value, key_at)
    if key_at < 0 or value_at < 0:
        return None
    end = value_at + len(value)
    if any(kind == "literal" for _, kind in part.key_closes):
        end += 1
    start = text.rfind(part.key_open, at, key_at) if part.key_skips else key_at - len(part.key_open)
    return start, end + len(key.join(part.value_close))


