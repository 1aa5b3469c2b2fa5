"""What one rendering may use: work, memory, processor time and nesting."""

from __future__ import annotations

import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Any, Final, TypeVar, cast

from unladen.chat.sandbox.limits import LimitExceeded

WORK: Final = 150_000_000
"""Work that a rendering may do, in units of about a nanosecond. Ordinary prompts need a million."""
WORK_OF_INPUT: Final = 2_000
"""Additional work for each character of the caller's input."""
MEMORY: Final = 32 << 20
"""Bytes that a rendering may allocate, counted as if nothing was freed."""
MEMORY_OF_INPUT: Final = 64
"""Additional bytes for each character of the caller's input."""
SECONDS: Final = 0.25
"""Processor time of a rendering in seconds. It counts the thread's own time, so a busy machine
breaks off no honest template."""
SECONDS_OF_INPUT: Final = 2e-6
"""Additional seconds for each character of the caller's input."""
MAX_WEIGHT: Final = 1_000_000
"""Characters that the text of a list or a dict may have, together with what is in it."""
MAX_NESTING: Final = 150
"""How deep lists and dicts may be nested."""
MAX_CALLS: Final = 80
"""How deep macros may call one another. One call takes about six of Python's 1000 frames."""
NODE: Final = 100
"""Work of one node of a template: of a name, an operator, a filter."""
ELEMENT: Final = 30
"""Work of one new element of a list or a dict, and about the bytes that it takes."""
COPY: Final = 10
"""Work of one element of a list that is copied into another one. It also bounds the memory: 8 bytes
each."""
CHECK: Final = 500_000
"""Work between two looks at the clock."""

SIMPLE: Final = frozenset({bool, int, float, type(None)})
"""Types whose values are small, except for large numbers."""

_T = TypeVar("_T")


class Budget:
    """Counts what a rendering uses, and ends it with :class:`LimitExceeded` where that is too much.

    ``input_size`` is the number of characters in the caller's input: long conversations get more.
    """

    __slots__ = ("_deadline", "_depth", "_known", "_max_weight", "_memory", "_own", "_until_check",
                 "_work")

    def __init__(self, input_size: int = 0) -> None:
        self._work = WORK + WORK_OF_INPUT * input_size
        self._memory = MEMORY + MEMORY_OF_INPUT * input_size
        self._deadline = time.thread_time() + SECONDS + SECONDS_OF_INPUT * input_size
        self._until_check = CHECK
        self._max_weight = MAX_WEIGHT + 4 * input_size
        self._depth = 0
        # Weight and height of every list and dict by its id. The object itself is kept, too, so
        # that no other object gets its id. They stay true: only grows() lets a list change.
        self._known: dict[int, tuple[object, int, int]] = {}
        # Lists that the template made and put into no other list: those may grow.
        self._own: dict[int, list[Any]] = {}

    def enter(self, n_nodes: int, n_chars: int) -> None:
        """Count a block of a template: its nodes, and the characters of text that it writes."""
        self.work(n_nodes * NODE)
        if n_chars:
            self.allocate(n_chars)

    def work(self, n: int) -> None:
        """Count ``n`` units of work."""
        self._work -= n
        self._until_check -= n
        if self._until_check < 0:
            if self._work < 0 or time.thread_time() > self._deadline:
                raise LimitExceeded("takes too long", "a loop or a macro runs too often")
            self._until_check = min(CHECK, self._work)

    def allocate(self, n_bytes: int) -> None:
        """Count ``n_bytes`` of memory, before they are allocated."""
        self._memory -= n_bytes
        self._until_check -= n_bytes >> 3
        if self._memory < 0:
            raise LimitExceeded("needs too much memory", "a text or a list becomes too long")

    def text(self, n_chars: int, *parts: str) -> None:
        """Count a text of ``n_chars`` that is made of ``parts``, before it is made."""
        if n_chars > 64:
            self.allocate(n_chars if all(map(str.isascii, parts)) else n_chars * 4)

    def call(self) -> None:
        """Count a call that another one makes; :meth:`leave` ends it."""
        self._depth += 1
        self.work(5 * NODE)
        if self._depth > MAX_CALLS:
            raise LimitExceeded("nests calls too deeply", "a macro calls itself without an end")

    def leave(self) -> None:
        """End a call."""
        self._depth -= 1

    def made(self, value: _T) -> _T:
        """``value``, after its size was counted: what an operator, a method or a filter made."""
        kind = type(value)
        if kind is str:
            size = len(value)  # type: ignore[arg-type]
            if size > 64:
                self.allocate(size if value.isascii() else size * 4)  # type: ignore[attr-defined]
        elif kind not in SIMPLE:
            self.weigh(value)
        return value

    def weigh(self, value: object) -> int:
        """About the number of characters that ``value`` has when it is written. What is in several
        lists counts in each of them, because it is written there as well."""
        return self._weight(value, 0)[0]

    def copied(self, made: _T, *sources: list[Any] | tuple[Any, ...]) -> _T:
        """``made``, a list of elements of ``sources``. Its weight follows from theirs, so a list
        that grows by one element again and again isn't looked through each time."""
        self.work(COPY * sum(map(len, sources)))
        weighed = [self._weight(source, 0) for source in sources]
        weight = sum(weight for weight, _ in weighed)
        self._check(weight, 0)
        self._known[id(made)] = made, weight, max(height for _, height in weighed)
        return made

    def literal(self, value: _T) -> _T:
        """``value``, a list or dict that the template wrote, after its size was counted."""
        self.weigh(value)
        if type(value) is list:
            self._own[id(value)] = cast("list[Any]", value)
        return value

    def grows(self, values: list[Any], items: Iterable[Any]) -> None:
        """Count ``items`` that are appended to ``values``. Raises :class:`LimitExceeded` unless the
        template made this list, and no other list has it: then its weight is known elsewhere."""
        _, weight, height = self._known.get(id(values)) or self._weight_of_all(values, 0)
        for item in items:
            more, below = self._weight(item, 0)
            self._own.pop(id(item), None)
            weight, height = weight + more + 2, max(height, below + 1)
        if id(values) not in self._own:
            raise LimitExceeded("changes a list that it may not change",
                                "it didn't make the list, or put it into another one")
        self.work(ELEMENT)
        self._check(weight, height)
        self._known[id(values)] = values, weight, height

    def _check(self, weight: int, height: int) -> None:
        if weight > self._max_weight or height > MAX_NESTING:
            raise LimitExceeded("makes a list that is too large",
                                "a list contains others again and again")

    def _weight(self, value: Any, depth: int) -> tuple[int, int]:
        """The weight of ``value``, and how deep it is nested itself."""
        if isinstance(value, str):
            return len(value) + 2, 0
        if isinstance(value, int):
            return 6 + value.bit_length() // 3, 0
        if not isinstance(value, list | tuple | dict):
            return _flat(value), 0
        known = self._known.get(id(value))
        if known is None:
            known = self._weight_of_all(value, depth)
            self._known[id(value)] = known
        return known[1], known[2]

    def _weight_of_all(self, value: list[Any] | tuple[Any, ...] | dict[Any, Any], depth: int
                       ) -> tuple[object, int, int]:
        if depth > MAX_NESTING:
            raise LimitExceeded("nests lists too deeply", "a list contains itself")
        self.work(ELEMENT * (len(value) + 1))
        weight, height = 2, 0
        parts: Iterable[Any] = value
        if isinstance(value, dict):
            parts = (part for item in value.items() for part in item)
        for part in parts:
            if type(part) is str:
                weight += len(part) + 4
                continue
            inner, below = self._weight(part, depth + 1)
            self._own.pop(id(part), None)
            weight, height = weight + inner + 2, max(height, below)
            if weight > self._max_weight:
                break
        self._check(weight, height)
        return value, weight, height + 1

    def counted(self, values: Iterable[_T]) -> Iterator[_T]:
        """Yield ``values``, each after it was counted."""
        for value in values:
            self.work(NODE)
            yield self.made(value)

    def several(self, values: Iterable[_T]) -> list[_T]:
        """All ``values``, each counted when it comes."""
        return self.made(list(self.counted(values)))


def _flat(value: object) -> int:
    """The weight of a value that isn't a list, a dict, a text or a whole number."""
    if isinstance(value, SIZED):
        return 2 + ELEMENT * len(value)
    return 40


SIZED: Final = (range, KeysView, ValuesView, ItemsView)
"""Types of values that hold others which exist anyway, or that are made when they are read."""


def size_of(value: object, depth: int = 0) -> int:
    """The number of characters in the caller's ``value``, roughly: what limits grow with. What is
    nested more deeply than :data:`MAX_NESTING` isn't counted."""
    if isinstance(value, str):
        return len(value)
    if depth > MAX_NESTING:
        return 0
    if isinstance(value, dict):
        return 16 + sum(size_of(key) + size_of(part, depth + 1) for key, part in value.items())
    if isinstance(value, list | tuple):
        return 16 + sum(size_of(part, depth + 1) for part in value)
    return 8
