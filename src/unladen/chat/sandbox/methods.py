"""Methods of texts, lists and dicts that templates may call, and what each may cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from unladen.chat.sandbox.budget import COPY, ELEMENT, Budget
from unladen.chat.sandbox.limits import LimitExceeded
from unladen.chat.sandbox.operators import MARKUP_GROWTH
from unladen.chat.sandbox.written import format_text

Before = Callable[[Budget, Any, "tuple[Any, ...]"], None]
"""Counts what a method takes before it is called: budget, the object, arguments."""

STRING: Final = frozenset({
    "capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "format",
    "format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
    "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper",
    "join", "ljust", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace",
    "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill"})
"""The methods of a text. ``encode`` isn't among them: prompts are texts."""
LIST: Final = frozenset({"copy", "count", "index"})
"""The methods of a list and a tuple that change nothing."""
GROWING: Final = frozenset({"append", "pop"})
"""The methods of a list that change it. Templates may call them on lists that they made themselves,
which some do although transformers refuses it."""
DICT: Final = frozenset({"copy", "get", "items", "keys", "values"})
"""The methods of a dict that change nothing."""

_SPACES: Final = (" ", "\n", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85",
                  "\xa0", "\u1680", *map(chr, range(0x2000, 0x200b)), "\u2028", "\u2029", "\u202f",
                  "\u205f", "\u3000")
"""Every character at which ``split`` and ``splitlines`` cut a text."""
_PIECE: Final = 60
"""Bytes of a short text in a list."""


def _padded(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    if args and isinstance(args[0], int):
        budget.text(max(args[0], 0), text, *args[1:2])


def _tabs(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    size = args[0] if args else 8
    if isinstance(size, int):
        budget.text(len(text) + text.count("\t") * max(size, 0), text)


def replaced(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    """Count ``text.replace(*args)``."""
    if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        n = text.count(args[0])
        budget.text(len(text) + n * len(args[1]), text, args[1])


def _translated(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    if not args or not isinstance(args[0], dict):
        raise TypeError("translate() takes a dict")
    budget.weigh(args[0])
    longest = max((len(v) for v in args[0].values() if isinstance(v, str)), default=1)
    budget.work(50 * len(text))
    budget.allocate(4 * len(text) * max(longest, 1))


def _searched_from_end(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    """Searching from the end compares at every place."""
    if args and isinstance(args[0], str):
        budget.work(len(text) * max(len(args[0]), 1) // 4)


def _split_from_end(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    _searched_from_end(budget, text, args)
    _split(budget, text, args)


def _split(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    by = args[0] if args else None
    n = text.count(by) if isinstance(by, str) and by else sum(map(text.count, _SPACES))
    if len(args) > 1 and isinstance(args[1], int) and args[1] >= 0:
        n = min(n, args[1])
    budget.text(len(text), text)
    budget.allocate(_PIECE * (n + 1))


def _joined(budget: Budget, text: str, args: tuple[Any, ...]) -> None:
    parts = args[0] if args else ()
    texts = [part for part in parts if isinstance(part, str)]
    budget.text(sum(map(len, texts)) + len(text) * len(texts), text, *texts)


def _searched(budget: Budget, values: Any, args: tuple[Any, ...]) -> None:
    budget.work(budget.weigh(values) + ELEMENT * len(values))


_BEFORE: Final[Mapping[str, Before]] = {
    "center": _padded, "ljust": _padded, "rjust": _padded, "zfill": _padded, "expandtabs": _tabs,
    "replace": replaced, "translate": _translated, "join": _joined,
    "rfind": _searched_from_end, "rindex": _searched_from_end, "rpartition": _searched_from_end,
    "strip": _searched_from_end, "lstrip": _searched_from_end, "rstrip": _searched_from_end,
    "rsplit": _split_from_end, "split": _split, "splitlines": _split,
    "index": _searched, "count": _searched}
"""What is counted before a method is called, by its name."""


def call(environment: Any, budget: Budget, method: Any, args: tuple[Any, ...],
         kwargs: dict[str, Any]) -> Any:
    """Call a ``method`` of a text, a list or a dict."""
    owner, name = method.__self__, method.__name__
    if isinstance(owner, list) and name in GROWING:
        return _grown(budget, owner, method, args, kwargs)
    if not isinstance(owner, str):
        if name in _BEFORE:
            _BEFORE[name](budget, owner, args)
        return method(*args, **kwargs)
    if name not in STRING:
        raise LimitExceeded(f"calls {name}, which templates may not call", "an attack")
    budget.work(len(owner) + sum(len(arg) for arg in args if isinstance(arg, str)))
    if name in ("format", "format_map"):
        return _formatted(environment, budget, owner, name, args, kwargs)
    args, kwargs = _in_order(name, args, kwargs)
    if name == "join" and args and not isinstance(args[0], str):
        args = (budget.several(args[0]), *list(args)[1:])
    if name in _BEFORE and name not in ("index", "count"):
        for _ in range(1 if type(owner) is str else 1 + MARKUP_GROWTH):  # markup escapes arguments
            _BEFORE[name](budget, owner, args)
    return method(*args, **kwargs)


def _grown(budget: Budget, owner: list[Any], method: Any, args: tuple[Any, ...],
           kwargs: dict[str, Any]) -> Any:
    """Call ``append`` or ``pop`` of a list that the template made."""
    budget.work(COPY * len(owner))  # taking the first element moves all others
    budget.grows(owner, args if method.__name__ == "append" else ())
    return method(*args, **kwargs)


def _in_order(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
              ) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position alone, where all those that are given by name have a known place."""
    rest = dict(list(_NAMES.get(name, {}).items())[len(args):])
    if not kwargs or not set(kwargs) <= set(rest):
        return args, kwargs
    return args + tuple(kwargs.get(key, default) for key, default in rest.items()), {}


_NAMES: Final[Mapping[str, dict[str, Any]]] = {
    "split": {"sep": None, "maxsplit": -1}, "rsplit": {"sep": None, "maxsplit": -1},
    "splitlines": {"keepends": False}, "expandtabs": {"tabsize": 8}}
"""Parameters that methods of texts take by name, with their defaults."""


def _formatted(environment: Any, budget: Budget, text: str, name: str, args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> str:
    if name == "format":
        return format_text(environment, budget, text, args, kwargs)
    if len(args) != 1 or kwargs:
        raise TypeError("format_map() takes one dict")
    return format_text(environment, budget, text, (), args[0])
