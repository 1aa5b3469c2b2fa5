"""What the user says, where it comes line by line: from a pipe, or from a plain terminal."""

from __future__ import annotations

import sys
from typing import Final, Protocol

from unladen.cli._input import text_from
from unladen.errors import InvalidArgument

QUOTES: Final = '"""'
"""A message that begins with these goes on to the line that ends with them."""
ON: Final = "\\"
"""A line that ends with this goes on in the next one."""


class Reader(Protocol):
    """Where the user's words come from."""

    def message(self, draft: str = "") -> str | None:
        """The next message or command; None at the end. ``draft``: a message that failed, which the
        user may change."""

    def result(self, prompt: str) -> str | None:
        """The result of a tool that the model calls, which ``prompt`` names; None where the user
        gives none."""


class Lines:
    """Reads stdin. Each line is a message, except where :func:`is_open` says that it goes on.
    Raises :class:`InvalidArgument` where stdin is closed."""

    def __init__(self) -> None:
        if sys.stdin is None:
            raise InvalidArgument("there is no message: stdin is closed",
                                  hint="pipe messages in, one a line, or open a terminal")
        self._prompts = sys.stdin.isatty() and sys.stderr.isatty()

    def message(self, draft: str = "") -> str | None:
        """See :class:`Reader`."""
        text = self._line(">>> ")
        while text is not None and is_open(text):
            more = self._line("... ")
            if more is None:
                break
            text = f"{text}\n{more}"
        return None if text is None else joined(text)

    def result(self, prompt: str) -> str | None:
        """See :class:`Reader`."""
        return self._line(prompt)

    def _line(self, prompt: str) -> str | None:
        if self._prompts:
            print(prompt, end="", file=sys.stderr, flush=True)
        line = text_from(sys.stdin.readline)
        return line.removesuffix("\n").removesuffix("\r") if line else None


def is_open(text: str) -> bool:
    """Whether the message ``text`` isn't complete after its last line."""
    begun = text.strip()
    if begun.startswith(QUOTES):
        return len(begun) < 2 * len(QUOTES) or not begun.endswith(QUOTES)
    return text.endswith(ON)


def unquoted(text: str) -> str:
    """``text`` without the triple quotes around it, if it has them."""
    inner = text.strip()
    if not inner.startswith(QUOTES) or is_open(inner):
        return text
    return inner[len(QUOTES):-len(QUOTES)].removeprefix("\n").removesuffix("\n")


def joined(text: str) -> str:
    """The message that the lines ``text`` make, without what said that it goes on."""
    if text.strip().startswith(QUOTES):
        return unquoted(text)
    return text.replace(f"{ON}\n", "\n").removesuffix(ON)
