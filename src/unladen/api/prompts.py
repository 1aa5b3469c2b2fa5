"""Prompts as callers give them: a text, token ids, or several of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from unladen.errors import InvalidArgument, UnladenError
from unladen.parameters.kinds import Text, items, reject, token_ids

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.tokenizer import Tokenizer

    Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
    Prompt: TypeAlias = str | Ids
    # Not Sequence[str]: a str is one too, and it is a single prompt.
    Prompts: TypeAlias = (list[str] | tuple[str, ...] | Sequence[Sequence[int]]
                          | Sequence[npt.NDArray[np.integer[Any]]])

_TEXT = Text()
WORDS = "a text, a list of token ids, or a list of several of these"


def split(name: str, value: object) -> tuple[list[object], bool]:
    """The prompts in ``value``, and whether it is a list of prompts; an empty list is a list of no
    prompts. Raises :class:`InvalidArgument` where it is neither a prompt nor a list of prompts."""
    if isinstance(value, str):
        return [value], False
    shape = getattr(value, "shape", None)
    if shape is not None and not str(getattr(value, "dtype", "")).startswith(("<U", "object")):
        return [value], False  # an array of ids; check_prompt() refuses the rest
    hint = ("bytes.decode() makes text of it"
            if isinstance(value, bytes | bytearray | memoryview) else "")
    found = list(items(name, value, WORDS, hint))
    if found and isinstance(found[0], Mapping):
        reject(name, WORDS, value, "fill the chat template in yourself and give its text")
    several = not found or isinstance(found[0], str | bytes) or _holds_items(found[0])
    return (found, True) if several else ([found], False)


def only(name: str, value: object) -> object:
    """The one prompt that ``value`` is; raises :class:`InvalidArgument` for several."""
    prompts, several = split(name, value)
    if several:
        reject(name, "one text or one list of token ids", value, "generate() takes several")
    return prompts[0]


def ids_of(name: str, prompt: object, tokenizer: Tokenizer) -> list[int]:
    """The token ids of a prompt; raises :class:`InvalidArgument` naming ``name``."""
    if not isinstance(prompt, str):
        return token_ids(name, prompt)
    return tokenizer.encode(_TEXT.of(name, prompt))


def blame(error: BaseException, name: str) -> None:
    """Make ``error`` say that it is about ``name``, if it doesn't say so yet."""
    if not isinstance(error, UnladenError):
        error.add_note(f"in {name}")
    elif name not in error.message:
        error.message = f"{name}: {error.message}"
        error.args = (error.message,)


def check_tokens(name: str, ids: Sequence[int]) -> None:
    """Raise :class:`InvalidArgument` where there are no tokens."""
    if not ids:
        raise InvalidArgument(f"{name} has no tokens", hint="give at least one token")


def _holds_items(value: object) -> bool:
    return hasattr(type(value), "__iter__") and getattr(value, "shape", None) != ()
