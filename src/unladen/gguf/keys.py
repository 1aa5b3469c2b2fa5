"""Reads hyper-parameters: metadata with the types that a model expects."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf.metadata import ArrayValue, Metadata, NumberArray, Value

MAX_INT = 2**31 - 1
"""An integer above this is refused where a model asks for one: kernels take sizes as int32."""

_T = TypeVar("_T", int, float, bool, str)


class HParams:
    """Typed access to ``metadata``; ``path`` is named in errors.

    ``get_int`` and its kin take whole keys; ``int``, ``float``, ``str``, ``bool``, ``numbers`` and
    the ``per_layer`` family take what follows ``"{arch}."``. A missing key gives ``default``, or
    raises :class:`GGUFError` where there is none; so does a value of another type. ``arch`` is
    ``general.architecture``, whose absence raises :class:`UnsupportedModel`.
    """

    def __init__(self, metadata: Mapping[builtins.str, Value], *, path: builtins.str = "<memory>"
                 ) -> None:
        self._metadata = metadata
        self.path = path
        if "general.architecture" not in metadata:
            raise UnsupportedModel(f"{path}: no general.architecture in the file",
                                   hint="check that it is a language model: projectors, adapters "
                                        "and importance matrices are GGUF files, too")
        self.arch = self.get_str("general.architecture")

    def __contains__(self, suffix: builtins.str) -> builtins.bool:
        return self._key(suffix) in self._metadata

    def get_int(self, key: builtins.str, default: builtins.int | None = None, *,
                minimum: builtins.int | None = 0, maximum: builtins.int = MAX_INT
                ) -> builtins.int:
        """The integer at ``key``, from ``minimum`` (None: no limit) to ``maximum``."""
        return self._get(key, default, lambda v, what: self._int(v, what, minimum, maximum))

    def get_float(self, key: builtins.str, default: builtins.float | None = None
                  ) -> builtins.float:
        """The number at ``key`` as a float; integers are accepted, NaN is refused."""
        return self._get(key, default, self._float)

    def get_str(self, key: builtins.str, default: builtins.str | None = None) -> builtins.str:
        """The string at ``key``."""
        return self._get(key, default, self._str)

    def get_bool(self, key: builtins.str, default: builtins.bool | None = None) -> builtins.bool:
        """The boolean at ``key``."""
        return self._get(key, default, self._bool)

    def get_numbers(self, key: builtins.str) -> npt.NDArray[np.generic]:
        """The array of numbers at ``key``, [len] in this machine's byte order."""
        value = self._value(key)
        if not isinstance(value, NumberArray):
            raise self._wrong(key, value, "an array of numbers")
        return value.numpy()

    def int(self, suffix: builtins.str, default: builtins.int | None = None, *,
            minimum: builtins.int | None = 0, maximum: builtins.int = MAX_INT) -> builtins.int:
        """:meth:`get_int` of ``{arch}.{suffix}``."""
        return self.get_int(self._key(suffix), default, minimum=minimum, maximum=maximum)

    def float(self, suffix: builtins.str, default: builtins.float | None = None) -> builtins.float:
        """:meth:`get_float` of ``{arch}.{suffix}``."""
        return self.get_float(self._key(suffix), default)

    def str(self, suffix: builtins.str, default: builtins.str | None = None) -> builtins.str:
        """:meth:`get_str` of ``{arch}.{suffix}``."""
        return self.get_str(self._key(suffix), default)

    def bool(self, suffix: builtins.str, default: builtins.bool | None = None) -> builtins.bool:
        """:meth:`get_bool` of ``{arch}.{suffix}``."""
        return self.get_bool(self._key(suffix), default)

    def numbers(self, suffix: builtins.str) -> npt.NDArray[np.generic]:
        """:meth:`get_numbers` of ``{arch}.{suffix}``."""
        return self.get_numbers(self._key(suffix))

    def per_layer(self, suffix: builtins.str, n_layers: builtins.int,
                  default: builtins.int | None = None, *, minimum: builtins.int | None = 0
                  ) -> list[builtins.int]:
        """One integer per layer; a scalar in the file stands for all of them."""
        return self._each(suffix, n_layers, default, lambda v, what: self._int(v, what, minimum))

    def per_layer_float(self, suffix: builtins.str, n_layers: builtins.int,
                        default: builtins.float | None = None) -> list[builtins.float]:
        """One number per layer; a scalar in the file stands for all of them."""
        return self._each(suffix, n_layers, default, self._float)

    def per_layer_bool(self, suffix: builtins.str, n_layers: builtins.int,
                       default: builtins.bool | None = None) -> list[builtins.bool]:
        """One boolean per layer, or 0 or 1; a scalar in the file stands for all of them."""
        return self._each(suffix, n_layers, default, self._flag)

    def is_array(self, suffix: builtins.str) -> builtins.bool:
        """Whether ``{arch}.{suffix}`` is there and has several values."""
        return isinstance(self._metadata.get(self._key(suffix)), ArrayValue)

    def _key(self, suffix: builtins.str) -> builtins.str:
        return f"{self.arch}.{suffix}"

    def _value(self, key: builtins.str) -> Value:
        try:
            return self._metadata[key]
        except KeyError:
            raise GGUFError(f"the metadata key {key} is missing", path=self.path,
                            hint="the file is incomplete: convert or fetch it again") from None

    def _get(self, key: builtins.str, default: _T | None,
             check: Callable[[Value, builtins.str], _T]) -> _T:
        if default is not None and key not in self._metadata:
            return default
        return check(self._value(key), key)

    def _each(self, suffix: builtins.str, n_layers: builtins.int, default: _T | None,
              check: Callable[[Value, builtins.str], _T]) -> list[_T]:
        key = self._key(suffix)
        if default is not None and key not in self._metadata:
            return [default] * n_layers
        value = self._value(key)
        if not isinstance(value, Sequence) or isinstance(value, builtins.str):
            return [check(value, key)] * n_layers
        # The file may have values for more layers than the model computes.
        if len(value) not in (n_layers, self._metadata.get(self._key("block_count"))):
            raise self._wrong(key, value, f"one value for each of {n_layers} layers")
        return [check(item, key) for item in value[:n_layers]]

    def _int(self, value: Value, key: builtins.str, minimum: builtins.int | None,
             maximum: builtins.int = MAX_INT) -> builtins.int:
        if not isinstance(value, builtins.int) or isinstance(value, builtins.bool):
            raise self._wrong(key, value, "an integer")
        if minimum is not None and value < minimum:
            raise self._wrong(key, value, f"at least {minimum}")
        if value > maximum:
            raise self._wrong(key, value, f"at most {maximum}")
        return value

    def _float(self, value: Value, key: builtins.str) -> builtins.float:
        if (not isinstance(value, builtins.int | builtins.float)
                or isinstance(value, builtins.bool) or math.isnan(value)):
            raise self._wrong(key, value, "a number")
        return builtins.float(value)

    def _str(self, value: Value, key: builtins.str) -> builtins.str:
        if not isinstance(value, builtins.str):
            raise self._wrong(key, value, "a string")
        return value

    def _bool(self, value: Value, key: builtins.str) -> builtins.bool:
        if not isinstance(value, builtins.bool):
            raise self._wrong(key, value, "a boolean")
        return value

    def _flag(self, value: Value, key: builtins.str) -> builtins.bool:
        return self._bool(bool(value) if value in (0, 1) else value, key)

    def _wrong(self, key: builtins.str, value: Value, expected: builtins.str) -> GGUFError:
        offset, kind = 0, type(value).__name__
        if isinstance(self._metadata, Metadata):
            offset, kind = self._metadata.offset_of(key), self._metadata.type_of(key)
        shown = value if isinstance(value, ArrayValue) else f"{value!r:.80} ({kind})"
        return GGUFError(f"the metadata key {key} is {shown}, not {expected}", path=self.path,
                         offset=offset, hint="the file is damaged or was converted wrongly")
