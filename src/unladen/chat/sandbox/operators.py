"""Operators of templates, which say how large their result becomes before they make it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from unladen.chat.sandbox.budget import ELEMENT, Budget
from unladen.chat.sandbox.limits import LimitExceeded
from unladen.chat.sandbox.written import format_percent

MAX_BITS: Final = 64
"""Bits that a computed whole number may have. Larger ones serve no prompt; a power of powers of ten
would never end, and numbers can be chosen to collide in sets."""
MARKUP_GROWTH: Final = 5
"""Characters that escaping makes of one, at most: ``&#34;`` of a quotation mark."""

PLAIN: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "**": operator.pow, "%": operator.mod}
"""Python's operators by the sign that templates use."""


def apply(budget: Budget, sign: str, left: Any, right: Any) -> Any:
    """``left`` and ``right`` joined by the operator that is written as ``sign``."""
    if isinstance(left, int) and isinstance(right, int):
        return _whole(sign, left, right)
    if sign == "+":
        if _are_lists(left, right):
            return budget.copied(left + right, left, right)
        _before_sum(budget, left, right)
    elif sign == "*":
        _before_product(budget, left, right)
    elif sign == "%" and isinstance(left, str):
        return budget.made(format_percent(budget, left, right))
    return budget.made(PLAIN[sign](left, right))


def _whole(sign: str, left: int, right: int) -> Any:
    """The same for whole numbers. Raises :class:`LimitExceeded` for a large result."""
    large = ((sign == "**" and right > 0 and left.bit_length() * right > 2 * MAX_BITS)
             or (sign == "*" and left.bit_length() + right.bit_length() > 2 * MAX_BITS))
    if large and not (sign == "**" and -2 < left < 2):
        raise LimitExceeded("computes a number that is too large", "a power or a product of counts")
    return small(PLAIN[sign](left, right))


def small(number: Any) -> Any:
    """``number``, a computed one. Raises :class:`LimitExceeded` for large whole numbers."""
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise LimitExceeded("computes a number that is too large", "a power or a product of counts")
    return number


def _before_sum(budget: Budget, left: Any, right: Any) -> None:
    if isinstance(left, str) and isinstance(right, str):
        # Text that is added to markup is escaped.
        growth = 1 if type(left) is type(right) is str else MARKUP_GROWTH + 1
        budget.text(growth * (len(left) + len(right)), left, right)


def _are_lists(left: Any, right: Any) -> bool:
    return type(left) is type(right) and isinstance(left, list | tuple)


def _before_product(budget: Budget, left: Any, right: Any) -> None:
    many, n = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(n, int) and isinstance(many, str):
        budget.text(len(many) * max(n, 0), many)
    elif isinstance(n, int) and isinstance(many, list | tuple):
        budget.work(ELEMENT * len(many) * max(n, 0))


def join(budget: Budget, parts: tuple[Any, ...]) -> str:
    """The text of all ``parts``, one after the other: the operator ``~``."""
    texts = [part if type(part) is str else text_of(budget, part) for part in parts]
    budget.text(sum(map(len, texts)), *texts)
    return "".join(texts)


def text_of(budget: Budget, value: Any) -> str:
    """``value`` as a text, as Python writes it."""
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bool | int | float | None):
        budget.allocate(REPR_GROWTH * budget.weigh(value))
    return str(value)


REPR_GROWTH: Final = 10
"""Characters that Python writes for one inside a list, at most: ``\\U0001f309``."""


def compared(budget: Budget, value: Any) -> Any:
    """``value``, which is one side of a comparison: comparing takes time by its size."""
    if isinstance(value, str):
        if len(value) > LONG:
            budget.work(len(value))
    elif isinstance(value, list | tuple | dict):
        budget.work(budget.weigh(value))
    elif isinstance(value, range):
        budget.work(len(value))
    return value


LONG: Final = 1000
"""Characters of a text from which on the time to look through it counts."""


def sliced(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    """``value[start:stop:step]``."""
    made = value[slice(start, stop, step)]
    return budget.copied(made, value) if isinstance(value, list | tuple) else budget.made(made)
