"""What the server keeps for clients that come back: the newest, within bounds."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_write: Final = json.JSONEncoder(separators=(",", ":")).encode


class Remembered(Generic[_K]):
    """At most ``max_items`` JSON values by their keys, whose texts have at most ``max_bytes``
    together. The oldest go first; a value that is too large by itself isn't kept.

    Values are kept as text, which takes a tenth of the memory of their objects.

    :attr:`n_bytes`: the bytes of all texts.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items, self._max_bytes = max_items, max_bytes
        self._kept: OrderedDict[_K, bytes] = OrderedDict()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: _K) -> bool:
        return key in self._kept

    def add(self, key: _K, value: Any) -> None:
        """Keep the JSON ``value``; ``key`` is new."""
        # ASCII only, since texts of clients may have halves of surrogate pairs, which UTF-8 lacks.
        text = _write(value).encode("ascii")
        if len(text) > self._max_bytes:
            return
        self._kept[key] = text
        self.n_bytes += len(text)
        while len(self._kept) > self._max_items or self.n_bytes > self._max_bytes:
            self.n_bytes -= len(self._kept.popitem(last=False)[1])

    def get(self, key: _K) -> Any:
        """A copy of the value of ``key``. Raises :class:`KeyError` where it isn't kept, or isn't
        any more."""
        return json.loads(self._kept[key])

    def remove(self, key: _K) -> None:
        """Keep the value of ``key`` no more. Raises :class:`KeyError` where it isn't kept."""
        self.n_bytes -= len(self._kept.pop(key))
