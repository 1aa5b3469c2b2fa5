"""Metadata values as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.gguf.layout import DTYPES, STRUCT_CODES, ValueType
from unladen.gguf.metadata import ArrayValue, StringArray

_OF_DTYPE: Final = {code: t for t, code in DTYPES.items() if t is not ValueType.BOOL} | {
    "b1": ValueType.BOOL}
"""GGUF's type for each NumPy code that an array to write may have."""
_INFERRED_INTS: Final = (
    (ValueType.UINT32, 0, 2**32 - 1), (ValueType.INT32, -2**31, 2**31 - 1),
    (ValueType.UINT64, 0, 2**64 - 1), (ValueType.INT64, -2**63, 2**63 - 1))
"""Types for Python integers without a declared type: the first that holds all of them is taken."""


def encode_string(value: str | bytes, order: str) -> bytes:
    """A string as it stands in the file: its length, then its bytes. Raises ValueError where it
    isn't Unicode."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(raw)) + raw


def encode_value(key: str, value: Any, type_name: str | None, order: str) -> bytes:
    """The bytes of ``value``'s type, then those of ``value``.

    ``type_name`` is the type of a scalar or of an array's innermost items, ``"INT8"`` or
    ``"INT8[]"`` alike; None infers it. Raises :class:`InvalidArgument` where they don't match.
    """
    leaf = None if type_name is None else _named(type_name)
    try:
        if _is_array(value):
            kind, body = ValueType.ARRAY, _array(value, leaf, order)
        else:
            kind = _inferred([value]) if leaf is None else leaf
            body = _items([value], kind, order)
    except (OverflowError, TypeError, ValueError, struct.error) as error:
        raise InvalidArgument(f"{key}: {value!r:.80} can't be written as "
                              f"{'metadata' if leaf is None else leaf.name}: {error}",
                              hint="give a type that holds the value") from None
    return struct.pack(order + "I", kind) + body


def _named(type_name: str) -> ValueType:
    try:
        return ValueType[type_name.rstrip("[]")]
    except KeyError:
        raise InvalidArgument(f"no metadata type is called {type_name!r}",
                              hint="known: " + ", ".join(t.name for t in ValueType)) from None


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _array(values: Sequence[Any] | npt.NDArray[Any], leaf: ValueType | None, order: str) -> bytes:
    items = values
    if isinstance(values, StringArray):
        items = [values.raw(i) for i in range(len(values))]
    elif isinstance(values, np.ndarray):
        items = values.tolist() if values.ndim == 1 else list(values)
    n_arrays = sum(map(_is_array, items))
    if n_arrays:
        if n_arrays < len(items):
            raise TypeError("arrays and single values are mixed")
        return (struct.pack(order + "IQ", ValueType.ARRAY, n_arrays)
                + b"".join(_array(item, leaf, order) for item in items))
    if leaf is None:
        leaf = _declared(values)
    if leaf is None:
        leaf = _inferred(items)
    return struct.pack(order + "IQ", leaf, len(items)) + _items(items, leaf, order)


def _declared(values: Sequence[Any] | npt.NDArray[Any]) -> ValueType | None:
    if isinstance(values, ArrayValue):
        return _named(values.type_name)
    return _OF_DTYPE.get(values.dtype.str[1:]) if isinstance(values, np.ndarray) else None


def _inferred(values: Sequence[Any] | npt.NDArray[Any]) -> ValueType:
    if not len(values):
        raise TypeError("an empty array needs a type")
    if all(isinstance(v, bool | np.bool_) for v in values):
        return ValueType.BOOL
    if all(isinstance(v, str | bytes) for v in values):
        return ValueType.STRING
    if any(isinstance(v, bool | np.bool_) or not isinstance(v, Real) for v in values):
        raise TypeError("it is neither text nor number nor boolean, or a mix of them")
    if not all(isinstance(v, Integral) for v in values):
        return ValueType.FLOAT32
    low, high = min(values), max(values)
    for value_type, lowest, highest in _INFERRED_INTS:
        if lowest <= low and high <= highest:
            return value_type
    raise OverflowError("no integer type of 64 bits holds it")


def _items(values: Sequence[Any] | npt.NDArray[Any], kind: ValueType, order: str) -> bytes:
    if kind is ValueType.ARRAY:
        if len(values):
            raise TypeError("it isn't an array")
        return b""
    if kind is ValueType.STRING:
        if not all(isinstance(v, str | bytes) for v in values):
            raise TypeError("only text is a string")
        return b"".join(encode_string(v, order) for v in values)
    if any(isinstance(v, bool | np.bool_) != (kind is ValueType.BOOL) for v in values):
        raise TypeError("booleans and numbers aren't the same")
    return struct.pack(f"{order}{len(values)}{STRUCT_CODES[kind]}", *values)
