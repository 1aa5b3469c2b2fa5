"""Reads the key-value part of a GGUF file: scalars at once, array items when they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from unladen.gguf.cursor import Cursor
from unladen.gguf.layout import DTYPES, ValueType

MAX_DEPTH: Final = 8
"""Arrays nested deeper than this are refused, since each level is a recursive call."""

_SMALLEST_ENTRY: Final = 8 + 4 + 1
"""Bytes of the smallest entry: an empty key's length, the type, one byte. Bounds their number."""
_SMALLEST_ARRAY: Final = 4 + 8
"""Bytes of the smallest array: type and count. Bounds the number of arrays in an array."""


class ArrayValue(Sequence[Any]):
    """A metadata array, used like a list. It decodes an item each time the item is read.

    ``type_name`` is the array's type, such as ``"STRING[]"``.
    """

    type_name: str

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Sequence) and not isinstance(other, str | bytes)
                and list(self) == list(other))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none either

    def __repr__(self) -> str:
        shown = ", ".join(repr(item) for item in self[:8])
        return f"<{self.type_name} of {len(self)}: {shown}{', ...' if len(self) > 8 else ''}>"


class NumberArray(ArrayValue):
    """Numbers or booleans, as a view of the file."""

    def __init__(self, view: npt.NDArray[Any], value_type: ValueType) -> None:
        self.type_name = f"{value_type.name}[]"
        self._view = view

    def __len__(self) -> int:
        return self._view.size

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._view[index].tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._view.tolist())

    def numpy(self) -> npt.NDArray[Any]:
        """The numbers [len] in this machine's byte order: a view of the file where its byte order
        and alignment allow it, else a copy."""
        return np.require(self._view, self._view.dtype.newbyteorder("="), "A")


class StringArray(ArrayValue):
    """Strings that one scan finds and that are decoded one at a time.

    ``buffer`` is uint8, the whole file; ``offsets`` and ``lengths`` are int64 [len]: string i is
    the ``lengths[i]`` bytes of ``buffer`` from ``offsets[i]`` on.
    """

    type_name = f"{ValueType.STRING.name}[]"

    def __init__(self, cursor: Cursor, n: int, what: str) -> None:
        """Moves ``cursor`` past ``n`` strings of the array ``what``; raises :class:`GGUFError`."""
        self.buffer = cursor.bytes
        self._n, self._what, self._begin = n, what, cursor.at(cursor.pos)
        self._found: npt.NDArray[np.int64] | None = cursor.string_starts(n, what)

    def forget(self) -> None:
        """Free the offsets that the scan found. The next access scans again."""
        self._found = None

    @property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Offsets [len + 1] in the file: of each string's length, then of the end of the last."""
        if self._found is None:
            self._found = self._begin.at(self._begin.pos).string_starts(self._n, self._what)
        return self._found

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each string begins. Computed at each access: it is large and rarely used."""
        return self._starts[:-1] + 8

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of each string. Computed at each access."""
        return np.diff(self._starts) - 8

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return text(self.raw(index))

    def raw(self, index: int) -> bytes:
        """The bytes of string ``index``, which need not be UTF-8."""
        at = range(len(self))[index]
        return self.buffer[self._starts[at] + 8:self._starts[at + 1]].tobytes()


class NestedArray(ArrayValue):
    """An array of arrays."""

    def __init__(self, items: Sequence[ArrayValue]) -> None:
        self.type_name = f"{items[0].type_name if items else ValueType.ARRAY.name}[]"
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> ArrayValue: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ArrayValue]: ...
    def __getitem__(self, index: int | slice) -> ArrayValue | Sequence[ArrayValue]:
        return self._items[index]


Value: TypeAlias = int | float | bool | str | ArrayValue


class _Entry(NamedTuple):
    value: int | float | bool | bytes | ArrayValue
    type_name: str
    offset: int
    encoded: npt.NDArray[np.uint8]


class Metadata(Mapping[str, Value]):
    """Metadata by key, in the file's order.

    Bytes of a string that aren't UTF-8 become U+FFFD; :meth:`raw` returns the bytes themselves.
    """

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Value:
        value = self._entries[key].value
        return text(value) if isinstance(value, bytes) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def raw(self, key: str) -> bytes:
        """The bytes of the string at ``key``; raises TypeError where the value isn't a string."""
        value = self._entries[key].value
        if not isinstance(value, bytes):
            raise TypeError(f"{key} is {self._entries[key].type_name}, not STRING")
        return value

    def type_of(self, key: str) -> str:
        """The type's name in the file: ``"UINT32"``, ``"STRING[]"``, ``"INT8[][]"``."""
        return self._entries[key].type_name

    def encoded(self, key: str) -> npt.NDArray[np.uint8]:
        """The bytes in the file of the type of ``key`` and of its value, in the file's byte
        order."""
        return self._entries[key].encoded

    def forget_strings(self) -> None:
        """Free the offsets of all arrays of strings. The next access to one scans it again."""
        for entry in self._entries.values():
            if isinstance(entry.value, StringArray):
                entry.value.forget()

    def offset_of(self, key: str) -> int:
        """The offset in the file, in bytes, at which the entry of ``key`` begins."""
        return self._entries[key].offset


def text(raw: bytes) -> str:
    """Decode ``raw`` for display: bytes that aren't UTF-8 become U+FFFD."""
    return raw.decode(errors="replace")


def read_metadata(cursor: Cursor, n: int) -> Metadata:
    """Read ``n`` entries; raises :class:`~unladen.errors.GGUFError`."""
    entries: dict[str, _Entry] = {}
    for _ in range(n):
        start = cursor.pos
        key = cursor.name("a metadata key")
        if key in entries:
            raise cursor.error(f"the metadata key {key!r} occurs twice", offset=start)
        at = cursor.pos
        value_type = _value_type(cursor, key)
        value: int | float | bool | bytes | ArrayValue
        if value_type is ValueType.ARRAY:
            value = _array(cursor, key, MAX_DEPTH)
        elif value_type is ValueType.STRING:
            value = cursor.string(key)
        else:
            value = _scalar(cursor, value_type, key)
        type_name = value.type_name if isinstance(value, ArrayValue) else value_type.name
        entries[key] = _Entry(value, type_name, start, cursor.bytes[at:cursor.pos])
    return Metadata(entries)


def _value_type(cursor: Cursor, key: str) -> ValueType:
    start = cursor.pos
    number = cursor.u32(f"the type of {key}")
    try:
        return ValueType(number)
    except ValueError:
        raise cursor.error(f"{key} has the unknown value type {number}", offset=start) from None


def _scalar(cursor: Cursor, value_type: ValueType, key: str) -> int | float | bool:
    start = cursor.pos
    (value,) = cursor.numbers(DTYPES[value_type], 1, key).tolist()
    if value_type is not ValueType.BOOL:
        return value  # type: ignore[no-any-return]
    if value > 1:
        raise cursor.error(f"{key} is a boolean of {value}, not 0 or 1", offset=start)
    return bool(value)


def _array(cursor: Cursor, key: str, depth: int) -> ArrayValue:
    if depth == 0:
        raise cursor.error(f"{key} nests arrays more than {MAX_DEPTH} deep")
    item_type = _value_type(cursor, key)
    if item_type is ValueType.ARRAY:
        n = cursor.count(_SMALLEST_ARRAY, f"arrays in {key}")
        return NestedArray([_array(cursor, key, depth - 1) for _ in range(n)])
    if item_type is ValueType.STRING:
        n = cursor.count(8, f"strings in {key}")
        return StringArray(cursor, n, key)
    code = DTYPES[item_type]
    n = cursor.count(np.dtype(code).itemsize, f"values in {key}")
    start = cursor.pos
    view = cursor.numbers(code, n, key)
    if item_type is ValueType.BOOL:
        if n and view.max() > 1:
            raise cursor.error(f"{key} holds booleans that are neither 0 nor 1",
                               offset=start + int(view.argmax()))
        view = view.view(np.bool_)
    return NumberArray(view, item_type)


def entry_count(cursor: Cursor) -> int:
    """Read the number of metadata entries and check it against the bytes left."""
    return cursor.count(_SMALLEST_ENTRY, "metadata entries")
