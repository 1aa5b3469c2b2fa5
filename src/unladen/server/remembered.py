"""What the server keeps for clients that come back: the newest, within bounds."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Remembered(Generic[_K, _V]):
    """At most ``max_items`` values by their keys, which take at most ``max_bytes`` of memory
    together. The oldest go first; a value that is too large by itself isn't kept.

    :attr:`n_bytes`: what the values take.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items, self._max_bytes = max_items, max_bytes
        self._kept: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, key: _K, value: _V, content: Any) -> None:
        """Keep ``value``; ``key`` is new. ``content``: the JSON in it, which takes the memory."""
        n_bytes = size_of(content)
        if n_bytes > self._max_bytes:
            return
        self._kept[key] = value, n_bytes
        self.n_bytes += n_bytes
        while len(self._kept) > self._max_items or self.n_bytes > self._max_bytes:
            self.n_bytes -= self._kept.popitem(last=False)[1][1]

    def get(self, key: _K) -> _V | None:
        """The value of ``key``; None: it isn't kept, or isn't any more."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def remove(self, key: _K) -> None:
        """Keep the value of ``key`` no more."""
        self.n_bytes -= self._kept.pop(key)[1]


def size_of(content: Any) -> int:
    """Bytes of memory that JSON ``content`` takes. What it has twice counts twice."""
    n_bytes, todo = 0, [content]
    while todo:
        each = todo.pop()
        n_bytes += sys.getsizeof(each)
        if isinstance(each, dict):
            todo.extend(each.keys())
            todo.extend(each.values())
        elif isinstance(each, list | tuple):
            todo.extend(each)
    return n_bytes
