"""Reads the ``tokenizer.ggml.*`` keys of a file and checks that they agree.

The keys are described in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError

PREFIX: Final = "tokenizer.ggml."
"""What all of the tokenizer's keys begin with."""
MAX_TOKEN_BYTES: Final = 4096
"""A longer token is refused: the cost of encoding grows with the longest token."""
MAX_SEARCHED_BYTES: Final = 512
"""A longer token is refused where tokens are searched for at each position of a text."""
MAX_VOCAB_BYTES: Final = 1 << 26
"""A vocabulary with more bytes of text is refused; real ones stay below 10 MiB."""
MAX_TOKENS: Final = 1 << 24
"""A vocabulary without texts that claims more tokens is refused."""


class TokenType(IntEnum):
    """What ``tokenizer.ggml.token_type`` says of a token."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@runtime_checkable
class BufferedStrings(Protocol):
    """Strings in one buffer, as in a mapped file.

    ``buffer`` is uint8; ``offsets`` and ``lengths`` are int64 [n]: string i is the ``lengths[i]``
    bytes from ``offsets[i]`` on.
    """

    buffer: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


class EncodedStrings:
    """Texts, encoded one after another into one buffer: :class:`BufferedStrings`."""

    def __init__(self, texts: Sequence[str]) -> None:
        raw = [text.encode() for text in texts]
        self.buffer = np.frombuffer(b"".join(raw), np.uint8)
        self.lengths = np.array([len(text) for text in raw], np.int64)
        self.offsets = np.cumsum(self.lengths) - self.lengths


class Fields:
    """The tokenizer's metadata of one file; keys are given without ``tokenizer.ggml.``.

    ``path`` names the file in errors. Methods raise :class:`GGUFError` that names the key.
    """

    def __init__(self, metadata: Mapping[str, object], path: str) -> None:
        self.path = path
        self._metadata = metadata
        self._no_tokens: dict[str, object] = {}

    def error(self, key: str, problem: str, *, hint: str = "") -> GGUFError:
        """A :class:`GGUFError` about ``key``; ``problem`` continues the sentence after the key."""
        offset = 0
        if hasattr(self._metadata, "offset_of") and PREFIX + key in self._metadata:
            offset = self._metadata.offset_of(PREFIX + key)
        return GGUFError(f"{PREFIX}{key} {problem}", path=self.path, offset=offset, hint=hint)

    def outside(self, key: str) -> str:
        """The string at the key whose full name is ``key``, in lower case; empty if missing."""
        value = self._metadata.get(key)
        return value.lower() if isinstance(value, str) else ""

    def vocab_size(self) -> int:
        """The architecture's ``vocab_size``; 0 where the file doesn't have it."""
        key = f"{self._metadata.get('general.architecture')}.vocab_size"
        value = self._metadata.get(key, 0)
        if not isinstance(value, int | np.integer) or not 0 <= value <= MAX_TOKENS:
            raise GGUFError(f"{key} is {value!r}, not a count up to {MAX_TOKENS}", path=self.path)
        return int(value)

    def string(self, key: str) -> str | None:
        """The string at ``key``."""
        value = self._metadata.get(PREFIX + key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, "isn't a string")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """The boolean at ``key``, which may be stored as 0 or 1."""
        value = self._metadata.get(PREFIX + key, default)
        if isinstance(value, int | np.integer) and value in (0, 1):
            return bool(value)
        if not isinstance(value, bool | np.bool_):
            raise self.error(key, "isn't a boolean")
        return bool(value)

    def token_id(self, key: str, n_vocab: int) -> int | None:
        """The id at ``key``; None where the key is missing or no token has the id. Converters
        write -1 for no token, or the id after the last; :meth:`warn` names such keys."""
        value = self._metadata.get(PREFIX + key)
        if value is None:
            return None
        if (isinstance(value, bool) or not isinstance(value, int | np.integer)
                or not 0 <= value < n_vocab):
            self._no_tokens[key] = value
            return None
        return int(value)

    def warn(self, n_vocab: int) -> None:
        """Log one warning that names the keys whose id :meth:`token_id` found to be no token's."""
        if self._no_tokens:
            named = ", ".join(f"{key}={value!r:.40}" for key, value in self._no_tokens.items())
            logging.getLogger("unladen").warning(
                "%s: %s: not among the %d tokens, ignored", self.path, named, n_vocab)

    def strings(self, key: str) -> BufferedStrings | None:
        """The strings at ``key``; a list of str is encoded into one buffer first."""
        value: Any = self._metadata.get(PREFIX + key)
        if value is None or isinstance(value, BufferedStrings):
            return value
        if (not isinstance(value, Sequence) or isinstance(value, str)
                or not all(isinstance(text, str) for text in value)):
            raise self.error(key, "isn't an array of strings")
        try:
            return EncodedStrings(value)
        except UnicodeEncodeError as error:
            raise self.error(key, f"isn't Unicode: {error.reason}") from None

    def numbers(self, key: str, kind: str, n: int | None) -> npt.NDArray[Any] | None:
        """The numbers at ``key``, whose NumPy dtype kind is one of ``kind`` (``"iu"``). There must
        be ``n`` of them, unless ``n`` is None."""
        value: Any = self._metadata.get(PREFIX + key)
        if value is None:
            return None
        try:
            array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        except (TypeError, ValueError) as error:
            raise self.error(key, "isn't an array of numbers") from error
        if array.ndim != 1 or (array.size and array.dtype.kind not in kind):
            raise self.error(key, f"isn't an array of numbers of kind {kind!r}")
        if n is not None and array.size != n:
            raise self.error(key, f"has {array.size} values for {n} tokens",
                             hint="the file is damaged: fetch it again")
        return array

    def scores(self, n_vocab: int) -> npt.NDArray[np.float32]:
        """The finite score of every token, float32 [n_vocab]."""
        array = self.numbers("scores", "fiu", n_vocab)
        if array is None:
            raise self.error("scores", "is missing", hint="this kind of tokenizer needs it")
        scores = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(scores).all():
            bad = int(np.argmin(np.isfinite(scores)))
            raise self.error("scores", f"has {scores[bad]} for token {bad}")
        return scores

    def octets(self, key: str) -> bytes:
        """The 8-bit numbers at ``key`` as bytes; empty if the key is missing."""
        array = self.numbers(key, "iu", None)
        if array is None:
            return b""
        if array.dtype.itemsize > 1 and array.size and not 0 <= array.min() <= array.max() < 256:
            raise self.error(key, "isn't an array of bytes")
        return array.astype(np.uint8).tobytes()

    def types(self, n_vocab: int) -> npt.NDArray[np.uint8] | None:
        """The :class:`TokenType` of every token, uint8 [n_vocab]; None if the file has none."""
        array = self.numbers("token_type", "iu", n_vocab)
        if array is None:
            return None
        if array.size and not 0 <= array.min() <= array.max() <= max(TokenType):
            bad = int(np.argmax((array < 0) | (array > max(TokenType))))
            raise self.error("token_type", f"has the unknown type {array[bad]} for token {bad}")
        return array.astype(np.uint8)
