"""Text from files, made fit for a terminal."""

from __future__ import annotations

import logging
import re
from typing import Final

# Controls of ASCII and Latin-1, which a terminal obeys; the marks that turn the direction of what
# follows; line and paragraph separators; halves of surrogate pairs.
_HARMFUL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, keep: str = "") -> str:
    r"""``text`` with an escape, as ``\x1b``, for every character that a terminal obeys instead of
    showing, but for those in ``keep``."""
    return _HARMFUL.sub(lambda m: m[0] if m[0] in keep else m[0].encode(
        "unicode_escape", "surrogatepass").decode(), text)


class VisibleFormatter(logging.Formatter):
    """Log lines with nothing in them that a terminal obeys but their line ends."""

    def format(self, record: logging.LogRecord) -> str:
        """See :class:`logging.Formatter`."""
        return visible(super().format(record), keep="\n\t")


class Once(logging.Filter):
    """Lets each warning through once: a plan is made anew where memory runs out or a model moves,
    and what was wrong with the first one is wrong with the next."""

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
