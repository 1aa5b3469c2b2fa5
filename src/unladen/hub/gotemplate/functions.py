"""The functions that a template may call: Go's, and Ollama's."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from unladen.hub.gotemplate.budget import Budget, Failed
from unladen.hub.gotemplate.printf import printf
from unladen.hub.gotemplate.values import (
    Kinds,
    Record,
    Value,
    is_true,
    shown,
    to_json,
    type_name,
)

Built: TypeAlias = Callable[[Budget, Sequence[Value]], Value]
"""A function of the values of its arguments."""

LAZY: Final = frozenset(("and", "or"))
"""Functions whose arguments are computed one by one, until the result is known."""
_SCALARS: Final = (bool, int, float, str)
_TYPESCRIPT: Final = {"string": "string", "number": "number", "integer": "number",
                      "boolean": "boolean", "array": "any[]", "object": "Record<string, any>",
                      "null": "null"}


def _counted(least: int, most: int | None, call: Built) -> Built:
    """``call``, which takes from ``least`` to ``most`` arguments."""
    def checked(budget: Budget, values: Sequence[Value]) -> Value:
        if len(values) < least or (most is not None and len(values) > most):
            raise Failed(f"a function got {len(values)} arguments, which isn't as many as it takes")
        return call(budget, values)
    return checked


def _kind(value: Value) -> str:
    """The kind of a value that can be compared; "" for lists, maps and records."""
    if value is None:
        return "nil"
    return next((t.__name__ for t in _SCALARS if isinstance(value, t)), "")


def _equal(budget: Budget, values: Sequence[Value]) -> bool:
    first = values[0]
    if isinstance(first, str):
        budget.step(len(first) * len(values))
    return any(_same(first, other) for other in values[1:])


def _same(a: Value, b: Value) -> bool:
    if a is None or b is None:
        return _is_nil(a) and _is_nil(b)
    if _kind(a) != _kind(b) or isinstance(a, Record) != isinstance(b, Record):
        raise Failed(f"{type_name(a)} and {type_name(b)} can't be compared")
    if _kind(a) or isinstance(a, Record):
        return bool(a == b)
    if not _is_nil(a) and not _is_nil(b):
        raise Failed(f"values of type {type_name(a)} can't be compared")
    return _is_nil(a) and _is_nil(b)


def _is_nil(value: Value) -> bool:
    """Whether Go has nil here. Lists and maps that a conversation lacks are nil there."""
    return value is None or (isinstance(value, list | dict) and not value)


def _less(budget: Budget, values: Sequence[Value]) -> bool:
    a, b = values
    if _kind(a) != _kind(b) or _kind(a) in ("", "nil", "bool"):
        raise Failed(f"{type_name(a)} and {type_name(b)} have no order")
    budget.step(len(a) if isinstance(a, str) else 0)
    # Go orders texts by their bytes in UTF-8, which is the order of their code points.
    return bool(a < b)


def _length(budget: Budget, values: Sequence[Value]) -> int:
    value = values[0]
    if isinstance(value, str):
        budget.step(len(value))
        return len(value.encode(errors="surrogatepass"))
    if not isinstance(value, list | dict):
        raise Failed(f"len of type {type_name(value)}")
    return len(value)


def _index(budget: Budget, values: Sequence[Value]) -> Value:
    item = values[0]
    if item is None:
        raise Failed("index of nil")
    for key in values[1:]:
        budget.step()
        if isinstance(item, dict):
            if not isinstance(key, str):
                raise Failed(f"a map's index must be a text, got {type_name(key)}")
            item = item.get(key)
        elif isinstance(item, list | str):
            item = _at(budget, item, key)
        else:
            raise Failed(f"can't index {type_name(item)}")
    return item


def _at(budget: Budget, items: list[Value] | str, key: Value) -> Value:
    if isinstance(items, str):
        budget.text(len(items))
    held: Sequence[Any] = items.encode() if isinstance(items, str) else items
    at = _position(key)
    if not 0 <= at < len(held):
        raise Failed(f"index out of range: {at}")
    return held[at]


def _position(key: Value) -> int:
    if isinstance(key, bool) or not isinstance(key, int):
        raise Failed(f"an index must be a whole number, got {type_name(key)}")
    return key


def _slice(budget: Budget, values: Sequence[Value]) -> Value:
    held, *ends = values
    if not isinstance(held, list | str):
        raise Failed(f"can't slice {type_name(held)}")
    if len(ends) > 2 and isinstance(held, str):
        raise Failed("a text takes two ends of a slice")
    items: Any = held.encode(errors="replace") if isinstance(held, str) else held
    budget.step(len(items))
    begin, end, cap = ([_position(e) for e in ends] + [0, len(items), len(items)][len(ends):])
    if not 0 <= begin <= end <= cap <= len(items):
        raise Failed(f"slice out of range: {begin} to {end} of {len(items)}")
    cut = items[begin:end]
    return cut.decode(errors="replace") if isinstance(held, str) else type(held)(cut)


def _print(budget: Budget, values: Sequence[Value]) -> str:
    pieces: list[str] = []
    for i, value in enumerate(values):
        if i and not isinstance(value, str) and not isinstance(values[i - 1], str):
            pieces.append(" ")
        pieces.append(shown(value, budget))
    return _whole(budget, pieces)


def _println(budget: Budget, values: Sequence[Value]) -> str:
    return _whole(budget, [" ".join(shown(v, budget) for v in values), "\n"])


def _whole(budget: Budget, pieces: Sequence[str]) -> str:
    budget.text(sum(map(len, pieces)))
    return "".join(pieces)


def _printf(budget: Budget, values: Sequence[Value]) -> str:
    if not isinstance(values[0], str):
        raise Failed(f"printf must get a text first, got {type_name(values[0])}")
    return _whole(budget, [printf(values[0], values[1:], budget)])


def _date(days: int) -> Built:
    def made(budget: Budget, values: Sequence[Value]) -> str:
        return (datetime.datetime.now() - datetime.timedelta(days=days)).strftime("%Y-%m-%d")
    return made


def typescript(budget: Budget, values: Sequence[Value]) -> str:
    """The type of a tool's parameter, in TypeScript; "any" for other values."""
    prop = values[0]
    if not isinstance(prop, Record) or "AnyOf" not in prop.values:
        return "any"
    budget.enter()
    every = prop.values["AnyOf"]
    kinds: Sequence[str] = prop.values["Type"] if isinstance(prop.values["Type"], Kinds) else ()
    found = ([typescript(budget, [each]) for each in every] if every
             else [_TYPESCRIPT.get(kind, "any") for kind in kinds] or ["any"])
    budget.leave()
    return " | ".join(found)


FUNCTIONS: Final[Mapping[str, Built]] = MappingProxyType({
    "and": _counted(1, None, lambda budget, values: values[-1]),
    "or": _counted(1, None, lambda budget, values: values[-1]),
    "not": _counted(1, 1, lambda budget, values: not is_true(values[0])),
    "eq": _counted(2, None, _equal),
    "ne": _counted(2, 2, lambda budget, values: not _equal(budget, values)),
    "lt": _counted(2, 2, _less),
    "le": _counted(2, 2, lambda budget, values: (
        _less(budget, values) or _equal(budget, values))),
    "gt": _counted(2, 2, lambda budget, values: not (
        _less(budget, values) or _equal(budget, values))),
    "ge": _counted(2, 2, lambda budget, values: not _less(budget, values)),
    "len": _counted(1, 1, _length), "index": _counted(1, None, _index),
    "slice": _counted(1, 4, _slice), "print": _print, "println": _println,
    "printf": _counted(1, None, _printf),
    "json": _counted(1, 1, lambda budget, values: to_json(values[0], budget)),
    "currentDate": _date(0), "yesterdayDate": _date(1),
    "toTypeScriptType": _counted(1, 1, typescript)})
"""Every function by name. ``and`` and ``or`` get the arguments up to the one that decides."""
