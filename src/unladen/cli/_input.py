"""Reads text from stdin."""

from __future__ import annotations

import sys

from unladen.errors import InvalidArgument


def from_stdin(hint: str, what: str = "text") -> str:
    """The text that is piped to stdin, without its last line break. Raises
    :class:`InvalidArgument` where stdin is a terminal or closed, or its bytes aren't text."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InvalidArgument(f"there is no {what}", hint=hint)
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"stdin isn't {error.encoding} text: {error.reason}",
                              hint="pipe UTF-8 text in") from None
