"""The values that a template works on, and how Go prints them.

Go's values are Python's: texts, numbers, bool, None for nil, lists, dicts with texts as keys for
maps, and records for structs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from unladen.hub.gotemplate.budget import Budget, Failed

MAX_NESTING: Final = 60
"""Lists and maps within one another at most, in the data."""
_UNSAFE: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""Characters that Go's JSON escapes, so that it can stand in HTML."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: its name in templates, its name in JSON, and whether JSON has it where
    it is empty."""

    name: str
    key: str
    always: bool = False


class Record:
    """A struct of the type ``kind``: templates reach its fields only, and no others."""

    __slots__ = ("fields", "kind", "prints_json", "values")

    def __init__(self, kind: str, fields: tuple[Field, ...], values: Mapping[str, Any], *,
                 prints_json: bool = False) -> None:
        self.kind = kind
        self.fields = fields
        self.values = values
        self.prints_json = prints_json


class JsonList(list[Any]):
    """A list that is printed as JSON."""


class NilList(list[Any]):
    """An empty list that Go has as nil: JSON has null for it."""


class NilJsonList(JsonList, NilList):
    """Both."""


class JsonMap(dict[str, Any]):
    """A map that is printed as JSON."""


class Kinds(list[str]):
    """The type of a tool's parameter: it is printed, and is in JSON, as a text if it is one."""


Value: TypeAlias = Any


def type_name(value: Value) -> str:
    """The name of ``value``'s type, for errors."""
    match value:
        case None:
            return "nil"
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
    return value.kind if isinstance(value, Record) else type(value).__name__


def is_true(value: Value) -> bool:
    """Whether ``value`` counts as true in a condition."""
    return True if isinstance(value, Record) else bool(value)


def printed(value: Value, budget: Budget) -> str:
    """``value`` as ``print`` writes it."""
    if isinstance(value, str):
        budget.text(len(value))
        return value
    if value is None:
        return "<no value>"
    return "".join(_printed(value, budget, 0))


def shown(value: Value, budget: Budget) -> str:
    """``value`` as the verb ``%v`` writes it. Messages are pointers in Go."""
    lead = "&" if isinstance(value, Record) and value.kind == "message" else ""
    return lead + "".join(_printed(value, budget, 0))


def _printed(value: Value, budget: Budget, depth: int) -> Iterator[str]:
    if depth > MAX_NESTING:
        raise Failed("it prints lists that nest too deeply")
    match value:
        case None:
            yield "<nil>"
        case bool():
            yield "true" if value else "false"
        case str():
            budget.text(len(value))
            yield value
        case float():
            yield number(value, -4, 6)
        case int():
            yield str(value)
        case Kinds() if len(value) < 2:
            yield "".join(value)
        case JsonList() | JsonMap():
            yield to_json(value, budget)
        case Record() if value.prints_json:
            yield to_json(value, budget)
        case list():
            yield from _enclosed("[", value, "]", budget, depth)
        case dict():
            budget.step(len(value))
            pieces = (f"{key}:{''.join(_printed(value[key], budget, depth + 1))}"
                      for key in sorted(value))
            yield f"map[{' '.join(pieces)}]"
        case Record():
            yield from _enclosed("{", [value.values[f.name] for f in value.fields], "}", budget,
                                 depth)


def _enclosed(opens: str, items: list[Value], closes: str, budget: Budget, depth: int
              ) -> Iterator[str]:
    yield opens
    for i, item in enumerate(items):
        budget.step()
        if i:
            yield " "
        yield from _printed(item, budget, depth + 1)
    yield closes


def number(value: float, smallest: int, largest: int) -> str:
    """``value`` with as few digits as name it. It gets an exponent where it is below 10 to the
    power of ``smallest``, or not below 10 to the power of ``largest``."""
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    n = next(n for n in range(18) if float(f"{value:.{n}e}") == value)
    scientific = f"{value:.{n}e}"
    power = int(scientific.partition("e")[2])
    if value and not smallest <= power < largest:
        return scientific
    return f"{value:.{max(0, n - power)}f}"


def to_json(value: Value, budget: Budget) -> str:
    """``value`` as Go's JSON: without blanks, keys of maps sorted, records in their order."""
    return "".join(_json(value, budget, 0))


def _json(value: Value, budget: Budget, depth: int) -> Iterator[str]:
    budget.step()
    if depth > MAX_NESTING:
        raise Failed("it writes JSON that nests too deeply")
    match value:
        case str():
            budget.text(len(value))
            clean = value.encode("utf-8", "replace").decode() if not value.isascii() else value
            yield json.dumps(clean, ensure_ascii=False).translate(_UNSAFE)
        case float():
            yield _json_number(value)
        case None | bool() | int():
            yield json.dumps(value)
        case NilList():
            yield "null"
        case Kinds() if len(value) == 1:
            yield from _json(value[0], budget, depth)
        case list():
            yield "["
            for i, item in enumerate(value):
                yield "," if i else ""
                yield from _json(item, budget, depth + 1)
            yield "]"
        case Record():
            yield from _members([(f.key, value.values[f.name]) for f in value.fields
                                 if f.always or _is_there(value.values[f.name])], budget, depth)
        case dict():
            budget.step(len(value))
            yield from _members([(key, value[key]) for key in sorted(value)], budget, depth)


def _members(members: list[tuple[str, Value]], budget: Budget, depth: int) -> Iterator[str]:
    yield "{"
    for i, (key, value) in enumerate(members):
        yield "," if i else ""
        yield from _json(key, budget, depth + 1)
        yield ":"
        yield from _json(value, budget, depth + 1)
    yield "}"


def _is_there(value: Value) -> bool:
    return isinstance(value, Record) or (value is not None and value not in ("", 0, False)
                                         and (not isinstance(value, list | dict) or bool(value)))


def _json_number(value: float) -> str:
    if not math.isfinite(value):
        raise Failed("JSON has no infinity and no NaN")
    mantissa, e, power = number(value, -6, 21).partition("e")
    return f"{mantissa}e{power[0]}{power[1:].lstrip('0')}" if e else mantissa
