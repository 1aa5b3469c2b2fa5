"""The filters and tests of templates: jinja2's own, each behind a count of what it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from unladen.chat.sandbox.budget import ELEMENT, NODE, SIMPLE, Budget
from unladen.chat.sandbox.limits import LimitExceeded
from unladen.chat.sandbox.methods import replaced
from unladen.chat.sandbox.operators import (
    MARKUP_GROWTH,
    REPR_GROWTH,
    apply,
    compared,
    join,
    sliced,
    small,
    text_of,
)
from unladen.chat.sandbox.written import format_percent

PLAIN: Final = frozenset({
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e",
    "escape", "filesizeformat", "first", "float", "forceescape", "format", "groupby", "indent",
    "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "random",
    "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr",
    "slice", "sort", "string", "sum", "title", "trim", "truncate", "unique", "upper",
    "urlencode", "wordcount", "wordwrap"})
"""The filters of jinja2 that templates have. The others write HTML or take unbounded time."""
COMPARING: Final = frozenset({
    "==", "!=", "<", "<=", ">", ">=", "eq", "equalto", "ne", "lt", "lessthan", "le", "gt",
    "greaterthan", "ge", "in", "lower", "upper"})
"""The tests that take time by the size of what they look at."""
GROWTH: Final[Mapping[str, int]] = {
    "e": MARKUP_GROWTH, "escape": MARKUP_GROWTH, "forceescape": MARKUP_GROWTH, "urlencode": 12,
    "string": REPR_GROWTH, "list": ELEMENT, "title": 70, "wordcount": 30, "upper": 3,
    "lower": 3, "sort": 8, "capitalize": 3, "dictsort": 8, "groupby": 8, "unique": 8}
"""Bytes that a filter makes of a character, or of an element, of its input, at most."""
MAX_DIGITS: Final = 32
"""The largest precision that ``round`` takes."""
MAX_INDENT: Final = 1000
"""Characters by which ``tojson`` and ``indent`` may move a line."""


def _batch(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    for value in (*args[1:2], *named.values()):
        if isinstance(value, int):
            budget.allocate(ELEMENT * max(value, 0))


def _center(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    for value in (*args[1:2], *named.values()):
        if isinstance(value, int):
            budget.allocate(4 * max(value, 0))


def _format(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    if args and args[1:] and named:
        raise TypeError("format takes values by position or by name, not both")
    if args:
        args[0] = text_of(budget, args[0])
        values = named or tuple(args[1:])
        format_percent(budget, args[0], values)


def _indent(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    width = args[1] if len(args) > 1 else named.get("width", 4)
    _check_indent(width)
    if args and isinstance(args[0], str):
        n_lines = sum(map(args[0].count, "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")) + 1
        by = len(width) if isinstance(width, str) else width
        budget.allocate(4 * (len(args[0]) + n_lines * by))


def _check_indent(width: Any) -> None:
    if (len(width) if isinstance(width, str) else width) > MAX_INDENT:
        raise LimitExceeded("indents a text too far", f"up to {MAX_INDENT} characters")


def _join(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    if not args:
        return
    args[0] = budget.several(args[0])
    by = args[1] if len(args) > 1 else named.get("d", "")
    growth = 4 * (MARKUP_GROWTH + 1)  # markup among the parts escapes all others
    if all(type(part) is str for part in (by, *args[0])):
        growth = 1 if all(map(str.isascii, (by, *args[0]))) else 4
    budget.allocate(growth * (budget.weigh(args[0]) + len(args[0]) * budget.weigh(by)))


def _replace(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    parts = [*args[1:3], *(named[key] for key in ("old", "new") if key in named)]
    if args and len(parts) == 2:
        texts = [text_of(budget, part) for part in (args[0], *parts)]
        for _ in range(1 if {type(v) for v in (args[0], *parts)} == {str} else 1 + MARKUP_GROWTH):
            replaced(budget, texts[0], (texts[1], texts[2]))


def _round(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    digits = args[1] if len(args) > 1 else named.get("precision", 0)
    if isinstance(digits, int) and not -MAX_DIGITS <= digits <= MAX_DIGITS:
        raise LimitExceeded(f"rounds to {digits} digits", f"up to {MAX_DIGITS} are allowed")


def _trim(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    chars = args[1] if len(args) > 1 else named.get("chars")
    if args and isinstance(args[0], str) and isinstance(chars, str):
        budget.work(len(args[0]) * len(chars) // 4)


def _wordwrap(budget: Budget, args: list[Any], named: dict[str, Any]) -> None:
    width = args[1] if len(args) > 1 else named.get("width", 79)
    by = args[3] if len(args) > 3 else named.get("wrapstring") or "\n"
    if args and isinstance(args[0], str) and isinstance(width, int) and isinstance(by, str):
        n_lines = len(args[0]) // max(width, 1) + args[0].count("\n") + 1
        budget.work(len(args[0]) * n_lines // 4 + 300 * len(args[0]))
        budget.allocate(4 * (len(args[0]) + (n_lines + len(args[0])) * len(by)))


BEFORE: Final[Mapping[str, Callable[[Budget, list[Any], dict[str, Any]], None]]] = {
    "batch": _batch, "slice": _batch, "center": _center, "format": _format, "indent": _indent,
    "join": _join, "replace": _replace, "round": _round, "trim": _trim,
    "wordwrap": _wordwrap}
"""What is counted before a filter runs, by its name."""


def counted_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, the filter called ``name``, behind a count. It takes the context first."""
    passes = _passes(function)
    growth = GROWTH.get(name, 1)
    before = BEFORE.get(name)

    def run(context: Any, *args: Any, **named: Any) -> Any:
        budget: Budget = context.budget
        arguments = list(args)
        for i, value in enumerate(arguments):
            arguments[i] = _counted_input(budget, value, growth)
        for value in named.values():
            _counted_input(budget, value, growth)
        if before is not None:
            before(budget, arguments, named)
        result = function(*passes(context), *arguments, **named)
        if name in ("int", "round", "abs"):
            return small(result)
        return budget.counted(result) if isinstance(result, Iterator) else budget.made(result)
    return run


def _counted_input(budget: Budget, value: Any, growth: int) -> Any:
    """``value``, whose size is counted as the input of a filter."""
    kind = type(value)
    if kind in SIMPLE:
        return value
    if isinstance(value, str):
        if len(value) > 16:
            budget.work(4 * len(value))
            if growth > 1:
                budget.allocate(growth * len(value))
        return value
    if isinstance(value, Iterator):
        return value  # it counts itself
    weight = budget.weigh(value)
    budget.work(weight)
    if growth > 1:
        budget.allocate(growth * weight)
    return value


def _passes(function: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]]:
    """What jinja2 passes to ``function`` before the arguments, as its decorators say."""
    what = getattr(getattr(function, "jinja_pass_arg", None), "name", None)
    match what:
        case "context":
            return lambda context: (context,)
        case "eval_context":
            return lambda context: (context.eval_ctx,)
        case "environment":
            return lambda context: (context.environment,)
    return lambda context: ()


def counted_test(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, a test that compares, behind a count. It takes the context first."""
    def run(context: Any, *args: Any) -> Any:
        return function(*(compared(context.budget, arg) for arg in args))
    return run


def total(context: Any, values: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of ``values``, or of an attribute of each."""
    budget: Budget = context.budget
    if isinstance(values, range) and attribute is None:
        budget.work(ELEMENT * len(values))
        return small(apply(budget, "+", sum(values), start))
    if attribute is not None:
        values = context.environment.call_filter("map", values, [], {"attribute": attribute},
                                                 context=context)
    found = budget.several(values)
    if all(type(value) in (int, float) for value in (start, *found)):
        return small(sum(found, start))
    for value in found:
        start = apply(budget, "+", start, value)
    return start


def to_json(context: Any, value: Any, ensure_ascii: bool = False, indent: Any = None,
            separators: Any = None, sort_keys: bool = False) -> str:
    """``value`` as JSON, as transformers writes it: no character is escaped for HTML."""
    budget: Budget = context.budget
    weight = budget.weigh(value)
    if indent is not None:
        _check_indent(indent)
        n = len(indent) if isinstance(indent, str) else max(indent, 0)
        budget.allocate(weight * n)
    for text in separators or ():
        budget.allocate(weight * budget.weigh(text))
    budget.work(weight * 4)
    budget.allocate(weight if not ensure_ascii else weight * 6)
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)
    return budget.made(text)


def looped(context: Any, values: Any, n_nodes: int) -> Any:
    """``values`` that a loop runs over; ``n_nodes`` is the size of its condition."""
    budget: Budget = context.budget
    if isinstance(values, Iterator):
        return budget.counted(values)
    if hasattr(values, "__len__"):
        budget.work(ELEMENT * len(values) + NODE * n_nodes * len(values))
    return values


OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "<concat>": lambda context, *parts: join(context.budget, parts),
    "<compare>": lambda context, value: compared(context.budget, value),
    "<literal>": lambda context, value: context.budget.literal(value),
    "<slice>": lambda context, *parts: sliced(context.budget, *parts),
    "<loop>": looped}
"""What the compiled code calls instead of Python's own operations. No template can name these."""
