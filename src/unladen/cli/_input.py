"""Reads text from stdin."""

from __future__ import annotations

import sys
from collections.abc import Callable

from unladen.errors import InvalidArgument


def from_stdin(hint: str, what: str = "text") -> str:
    """The text that is piped to stdin, without its last line break. Raises
    :class:`InvalidArgument` where stdin is a terminal or closed, or its bytes aren't text."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidArgument(f"there is no {what}", hint=hint)
    return text_from(sys.stdin.read).removesuffix("\n")


def text_from(read: Callable[[], str]) -> str:
    """What ``read`` reads from stdin. Raises :class:`InvalidArgument` where its bytes aren't text.
    """
    try:
        text = read()
        text.encode()  # in the locale C.UTF-8 Python lets other bytes through, as surrogates
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"stdin isn't {error.encoding} text: {error.reason}",
                              hint="pipe UTF-8 text in") from None
    return text
