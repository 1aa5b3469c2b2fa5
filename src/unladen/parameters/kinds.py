"""The kinds of values that parameters take. They check values before anything runs.

A :class:`Kind` turns a caller's value into the plain Python value that the rest of the package
works with. NumPy's scalars are accepted as numbers; ``True`` and ``"5"`` aren't numbers. This
module doesn't import NumPy, because it is imported before the first file is mapped.
"""

from __future__ import annotations

import math
import operator
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn, cast

from unladen.errors import InvalidArgument

MAX_ITEMS = 1 << 22
"""Items that are taken from a list or an iterator at most: an endless iterator must end."""
INT32_MAX = 2**31 - 1
"""The largest whole number that a parameter takes by default: native code uses int32."""


def shown(value: object) -> str:
    """``value`` in about 60 characters at most, even if its ``repr`` is longer or fails."""
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "shape") and value.shape:
        return f"an array of {getattr(value, 'dtype', '?')} {list(value.shape)}"
    writer = reprlib.Repr()
    writer.maxstring = writer.maxother = 60
    try:
        text = writer.repr(value)
    except Exception as error:  # noqa: BLE001 - the object's own code; its class says enough
        return f"an object of class {kind.__name__}, whose repr raises {type(error).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def reject(name: str, words: str, value: object, hint: str = "") -> NoReturn:
    """Raise :class:`InvalidArgument`: "``name`` must be ``words``, got ``value``"."""
    raise InvalidArgument(f"{name} must be {words}, got {shown(value)}", hint=hint)


def integer(value: object) -> int | None:
    """``value`` as an int; None if it isn't one. A bool isn't one."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(cast(Any, value))
    except TypeError:
        return None


def real(value: object) -> float | None:
    """``value`` as a float, infinite for an int that is too large; None if it isn't a number."""
    if type(value) is float:
        return value
    if isinstance(value, bool | str | bytes | bytearray) or getattr(value, "shape", None):
        return None
    if type(value).__name__ in ("bool", "bool_") or not hasattr(type(value), "__float__"):
        return None
    try:
        return float(cast(Any, value))
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


class Kind:
    """Values of one kind. :attr:`words` describes them: "a whole number from 1 on".

    ``hint`` says what to try where a value isn't of the kind; without it :attr:`example` is shown.
    """

    example: object = None

    def __init__(self, words: str, hint: str = "") -> None:
        self.words = words
        self.hint = hint

    def refuse(self, name: str, value: object, words: str = "", hint: str = "") -> NoReturn:
        """Raise :class:`InvalidArgument`: "``name`` must be ``words``", by default the kind's."""
        example = (f"for example {name}={self.example!r}"
                   if self.example is not None and name.isidentifier() else "")
        reject(name, words or self.words, value, hint or self.hint or example)

    def _part(self, kind: Kind, name: str, value: object) -> Any:
        """A part of a value, checked by its ``kind``; errors use the hint of the whole value."""
        try:
            return kind.of(name, value)
        except InvalidArgument as error:
            error.hint = error.hint or self.hint
            raise

    def of(self, name: str, value: object) -> Any:
        """``value`` as the package uses it. Raises :class:`InvalidArgument`, which names ``name``.
        """
        raise NotImplementedError


class Whole(Kind):
    """Whole numbers from ``low`` to ``high``."""

    def __init__(self, low: int, high: int = INT32_MAX, hint: str = "") -> None:
        super().__init__("a whole number" if low < -1 and high == INT32_MAX else
                         f"a whole number from {low} " + (
                             "on" if high >= INT32_MAX else f"to {high}"), hint)
        self.low, self.high, self.example = low, high, max(low, 0)

    def of(self, name: str, value: object) -> int:
        """The same as an int."""
        number = integer(value)
        if number is None:
            self.refuse(name, value)
        if not self.low <= number <= self.high:
            self.refuse(name, value, f"at least {self.low}" if number < self.low else
                        f"at most {self.high}")
        return number


class Real(Kind):
    """Finite numbers from ``low`` to ``high``."""

    def __init__(self, low: float = -math.inf, high: float = math.inf, hint: str = "") -> None:
        super().__init__("a finite number" + (f" from {low:g}" if low > -math.inf else "") + (
            f" to {high:g}" if high < math.inf else " on" if low > -math.inf else ""), hint)
        self.low, self.high, self.example = low, high, max(low, min(high, 0.5))

    def of(self, name: str, value: object) -> float:
        """The same as a float."""
        number = real(value)
        if number is None or not math.isfinite(number) or not self.low <= number <= self.high:
            self.refuse(name, value)
        return number


class Flag(Kind):
    """True and False, NumPy's too."""

    example = True

    def __init__(self, hint: str = "") -> None:
        super().__init__("True or False", hint)

    def of(self, name: str, value: object) -> bool:
        """The same as a bool."""
        if value is True or value is False:
            return value
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        self.refuse(name, value)


class Choice(Kind):
    """One of several names, in any case."""

    def __init__(self, *names: str, hint: str = "") -> None:
        super().__init__(", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"
                         if len(names) > 1 else repr(names[0]), hint)
        self.names, self.example = names, names[0]

    def of(self, name: str, value: object) -> str:
        """The name in the package's own spelling."""
        if isinstance(value, str):
            for each in self.names:
                if value.lower() == each:
                    return each
        self.refuse(name, value)


class Text(Kind):
    """Texts that can be encoded as UTF-8; ``filled``: the empty text is refused."""

    def __init__(self, words: str = "text", hint: str = "", *, filled: bool = False) -> None:
        super().__init__(words, hint)
        self.filled = filled

    def of(self, name: str, value: object) -> str:
        """The same."""
        if isinstance(value, bytes | bytearray | memoryview):
            self.refuse(name, value, f"{self.words}, which is a str",
                        "bytes.decode() turns it into text")
        if not isinstance(value, str) or (self.filled and not value):
            self.refuse(name, value)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise InvalidArgument(
                    f"{name} isn't Unicode: {error.reason} at {error.start}",
                    hint="decode the bytes with errors='replace'") from None
        return value


class PathText(Kind):
    """Names of files."""

    def __init__(self, words: str = "a path, a str or an os.PathLike", hint: str = "") -> None:
        super().__init__(words, hint)

    def of(self, name: str, value: object) -> str:
        """The path as a str."""
        path: object = value
        if not isinstance(value, str) and hasattr(type(value), "__fspath__"):
            path = os.fspath(cast("os.PathLike[str]", value))
        if isinstance(path, bytes):
            self.refuse(name, value, hint="os.fsdecode(path) turns it into a str")
        if not isinstance(path, str) or not path:
            self.refuse(name, value)
        if "\0" in path:
            self.refuse(name, value, f"{self.words} without NUL characters",
                        "check where the name comes from")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"{name} must be a path that the system can write, got a "
                                  f"character that it can't at {error.start}") from None
        return path


class Pattern(Text):
    """Regular expressions."""

    def __init__(self) -> None:
        super().__init__("a regular expression", filled=True)

    def of(self, name: str, value: object) -> str:
        """The text of the expression, which compiles."""
        import re
        text = super().of(name, value)
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgument(f"{name} must be a regular expression, got {shown(text)}: "
                                  f"{error}", hint="for example 'ffn_.*'") from None
        return text


class Either(Kind):
    """Values of one kind or another."""

    def __init__(self, one: Kind, other: Kind, hint: str = "") -> None:
        super().__init__(f"{one.words} or {other.words}", hint or one.hint or other.hint)
        self.kinds: tuple[Kind, Kind] = (one, other)
        self.example = one.example if one.example is not None else other.example

    def of(self, name: str, value: object) -> Any:
        """The value as the kind that accepts it returns it."""
        for kind in self.kinds:
            try:
                return kind.of(name, value)
            except InvalidArgument as error:
                # A value of this kind that is only out of range, or has one wrong item, gets the
                # more exact error.
                if not error.message.startswith(f"{name} must be {kind.words}"):
                    raise
        self.refuse(name, value)


class OrNone(Kind):
    """The values of a kind, and None."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f"{kind.words} or None", kind.hint)
        self.kind, self.example = kind, kind.example

    def of(self, name: str, value: object) -> Any:
        """The value as the kind returns it, or None."""
        return None if value is None else self.kind.of(name, value)


class Items(Kind):
    """Lists and other iterables, except texts and mappings.

    ``words`` describes them: "a list of device names".
    """

    def __init__(self, item: Kind, words: str, hint: str = "", *, filled: bool = False) -> None:
        super().__init__(words, hint)
        self.item = item
        self.filled = filled

    def of(self, name: str, value: object) -> list[Any]:
        """A list of the items."""
        found = [self._part(self.item, f"{name}[{i}]", each)
                 for i, each in enumerate(items(name, value, self.words, self.hint))]
        if self.filled and not found:
            self.refuse(name, value, f"{self.words} with at least one item")
        return found


def items(name: str, value: object, words: str, hint: str = "") -> Iterator[Any]:
    """The items of a list or another iterable, at most ``MAX_ITEMS``; raises
    :class:`InvalidArgument`."""
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or getattr(
            value, "shape", None) == ():
        reject(name, words, value, hint)
    try:
        each = iter(cast("Iterable[Any]", value))
    except TypeError:
        reject(name, words, value, hint)
    return _bounded(name, each)


def _bounded(name: str, each: Iterator[Any]) -> Iterator[Any]:
    yield from islice(each, MAX_ITEMS)
    for _ in each:
        raise InvalidArgument(f"{name} must have at most {MAX_ITEMS} items, got more")


class Pairs(Kind):
    """Mappings from ``keys`` to ``values``."""

    def __init__(self, keys: Kind, values: Kind, words: str, hint: str = "") -> None:
        super().__init__(words, hint)
        self.keys, self.values = keys, values

    def of(self, name: str, value: object) -> dict[Any, Any]:
        """A dict of the checked keys and values."""
        if not isinstance(value, Mapping):
            self.refuse(name, value)
        return {self._part(self.keys, f"a key of {name}", key):
                self._part(self.values, f"{name}[{shown(key)}]", each)
                for key, each in value.items()}


class Pair(Kind):
    """Two values of one kind."""

    def __init__(self, item: Kind, words: str, hint: str = "") -> None:
        super().__init__(words, hint)
        self.item = item

    def of(self, name: str, value: object) -> tuple[Any, Any]:
        """A tuple of the two."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            self.refuse(name, value)
        return (self._part(self.item, f"{name}[0]", value[0]),
                self._part(self.item, f"{name}[1]", value[1]))


class Called(Kind):
    """Functions and other callables."""

    def of(self, name: str, value: object) -> Callable[..., object]:
        """The same."""
        if not callable(value):
            self.refuse(name, value)
        return value


class Instance(Kind):
    """Objects for which ``fits`` is true: used for classes that are imported elsewhere."""

    def __init__(self, fits: Callable[[object], bool], words: str, hint: str = "") -> None:
        super().__init__(words, hint)
        self.fits = fits

    def of(self, name: str, value: object) -> Any:
        """The same."""
        if not self.fits(value):
            self.refuse(name, value)
        return value


IDS = "a list of token ids, whole numbers from 0 on"
"""Words for token ids, for errors."""


def token_ids(name: str, value: object) -> list[int]:
    """Token ids as a list of int, from a list, an iterator or an integer array [n].

    This doesn't check whether a vocabulary has them. Raises :class:`InvalidArgument`.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        reject(name, IDS, value, "bytes.decode() turns it into text, list(...) into ids")
    if isinstance(value, str):
        reject(name, IDS, value, "Model.tokenize(text) turns a text into ids")
    shape = getattr(value, "shape", None)
    if shape is not None:
        found = _array_ids(name, value)
    elif type(value) is list:
        found = value[:]
    else:
        found = list(items(name, value, IDS))
    if not all(type(each) is int for each in found):
        for i, each in enumerate(found):
            number = integer(each)
            if number is None:
                reject(f"{name}[{i}]", "a token id, a whole number from 0 on", each)
            found[i] = number
    if found and not 0 <= min(found) <= max(found) <= INT32_MAX:
        at = next(i for i, each in enumerate(found) if not 0 <= each <= INT32_MAX)
        reject(f"{name}[{at}]", f"a token id, from 0 to {INT32_MAX}", found[at])
    return found


def _array_ids(name: str, value: Any) -> list[int]:
    if len(value.shape) != 1:
        reject(name, f"{IDS}, in one dimension", value,
               "list(array) for several prompts" if len(value.shape) == 2 else "")
    if str(value.dtype).rpartition(".")[2].removeprefix("u").startswith("int"):
        found: list[int] = value.tolist()
        return found
    if str(value.dtype) != "object" and len(value):
        reject(name, IDS, value, "array.astype(int) rounds")
    return list(value.tolist())


def flag(name: str, value: object) -> bool:
    """``value``, which must be True or False; raises :class:`InvalidArgument`."""
    return value if value is True or value is False else _FLAG.of(name, value)


_FLAG = Flag()

