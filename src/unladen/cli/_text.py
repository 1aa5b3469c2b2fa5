"""Makes text from files safe to print on a terminal."""

from __future__ import annotations

import logging
import os
import re
from typing import Final

# Characters that aren't printed as they are: controls of ASCII and Latin-1, which a terminal obeys;
# marks that change the direction of text; line and paragraph separators; unpaired surrogates.
_HARMFUL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


DIM, NORMAL = "\x1b[2m", "\x1b[0m"
"""The style of reasoning and notes on a terminal, and what ends any style."""


def has_styles() -> bool:
    """Whether colours and dim text may be written to a terminal."""
    return (not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb").lower() not in ("dumb", "unknown"))


def visible(text: str, keep: str = "") -> str:
    r"""``text`` with an escape such as ``\x1b`` for every character that a terminal obeys instead
    of showing; characters in ``keep`` stay."""
    return _HARMFUL.sub(lambda m: m[0] if m[0] in keep else m[0].encode(
        "unicode_escape", "surrogatepass").decode(), text)


class VisibleFormatter(logging.Formatter):
    """Formats log lines with :func:`visible`, so that only their line ends control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """See :class:`logging.Formatter`."""
        return visible(super().format(record), keep="\n\t")


class Once(logging.Filter):
    """Lets each warning through once. A plan is made again where memory runs out or a model moves,
    and would repeat its warnings."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """See :class:`logging.Filter`."""
        if record.levelno < logging.WARNING:
            return True
        text = record.getMessage()
        is_new = text not in self._said
        self._said.add(text)
        return is_new
