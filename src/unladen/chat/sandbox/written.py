"""Formatted texts: ``"%s" % x`` and ``"{}".format(x)``, with bounded widths."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from unladen.chat.sandbox.budget import Budget
from unladen.chat.sandbox.limits import LimitExceeded

MAX_WIDTH: Final = 1000
"""The largest width or precision of a formatted value."""
_PERCENT: Final = re.compile(r"%(?:\([^()]*\))?[-+ #0]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?")
_NUMBERS: Final = re.compile(r"[0-9]+")


def format_percent(budget: Budget, text: str, values: Any) -> Any:
    """``text % values``."""
    found = _PERCENT.findall(text)
    for number in (number for pair in found for number in pair):
        if number == "*":
            raise LimitExceeded("takes a width from its data", "a format with an asterisk")
        _check_width(number)
    _before(budget, len(text), len(found), values)
    return text % values


def _before(budget: Budget, n_chars: int, n_fields: int, values: Any) -> None:
    """Count a text with ``n_fields``, each of which may be the largest of ``values``."""
    several: Sequence[Any] = (values if isinstance(values, tuple)
                              else [*values.values()] if isinstance(values, Mapping) else [values])
    largest = max(map(budget.weigh, several), default=0)
    if isinstance(values, Mapping):  # the format may write all of it
        largest = max(largest, budget.weigh(values))
    budget.allocate(n_chars + n_fields * (MAX_WIDTH // 10 + 4 * largest))


def _check_width(number: str) -> None:
    if len(number) > 9 or (number and int(number) > MAX_WIDTH):
        raise LimitExceeded(f"writes a value {number:.12} characters wide",
                            f"widths are up to {MAX_WIDTH}")


class _Formatter(string.Formatter):
    """Formats like ``str.format`` and reads attributes and items as templates do."""

    def __init__(self, environment: Any, budget: Budget, escape: Callable[[Any], str] | None
                 ) -> None:
        self._environment = environment
        self._budget = budget
        self._escape = escape

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        first, rest = _split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            self._budget.work(100)
            value = (self._environment.getattr(value, name) if is_attribute
                     else self._environment.getitem(value, name))
        return value, first

    def parse(self, format_string: Any) -> Iterator[Any]:
        for part in super().parse(format_string):
            self._budget.allocate(100)
            yield part

    def format_field(self, value: Any, format_spec: str) -> Any:
        for number in _NUMBERS.findall(format_spec):
            _check_width(number)
        self._budget.allocate(MAX_WIDTH // 10 + 5 * self._budget.weigh(value))
        if self._escape is None:
            return super().format_field(value, format_spec)
        return str(self._escape(value.__html__() if hasattr(value, "__html__")
                                else super().format_field(value, format_spec)))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion:
            self._budget.allocate(10 * self._budget.weigh(value))
        return super().convert_field(value, conversion)


def _split(field_name: str) -> tuple[Any, list[tuple[bool, Any]]]:
    """The first name of a field, and what is read from it: (is it an attribute, its name)."""
    split = string._string.formatter_field_name_split  # type: ignore[attr-defined]
    first, rest = split(field_name)
    return first, list(rest)


def format_text(environment: Any, budget: Budget, text: str, args: tuple[Any, ...],
                kwargs: Mapping[str, Any]) -> str:
    """``text.format(*args, **kwargs)``."""
    escape = None if type(text) is str else text.escape  # type: ignore[attr-defined]
    formatter = _Formatter(environment, budget, escape)
    return type(text)(formatter.vformat(text, args, kwargs))
