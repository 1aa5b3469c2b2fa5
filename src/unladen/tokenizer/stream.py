"""Turns a stream of tokens into text: whole characters only, up to the first stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from unladen.errors import InvalidArgument
from unladen.tokenizer.tokenizer import Tokenizer


class StreamDecoder:
    """Turns ids into text one at a time. All pieces together are ``tokenizer.decode(ids)``.

    ``special`` and ``at_start`` are as in :meth:`Tokenizer.decode`, but ``at_start`` is False by
    default: a stream usually continues a prompt.
    """

    def __init__(self, tokenizer: Tokenizer, *, special: bool = False, at_start: bool = False
                 ) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._fresh = at_start
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that ``token_id`` completes. The first bytes of a character are kept until the
        rest comes."""
        piece = self._tokenizer.token_bytes(token_id, special=self._special, at_start=self._fresh)
        self._fresh = self._tokenizer.starts_text(token_id)
        return self._utf8.decode(piece)

    def flush(self) -> str:
        """U+FFFD for a character that isn't complete at the end, else ""."""
        return self._utf8.decode(b"", True)


class StopMatcher:
    """Ends a stream of text before the first stop string that is complete.

    If several stop strings end at the same character, the longest counts. Text that may begin a
    stop string is held back until that is decided, so the result doesn't depend on how the text is
    cut into pushes. An empty string in ``stops`` raises :class:`InvalidArgument`.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise InvalidArgument("a stop string is empty",
                                  hint="leave it out: it would stop before the first token")
        # Sorted so that the longest of those that end at one character is found first.
        self._stops = sorted(set(stops), key=len, reverse=True)
        self._borders = [_borders(stop) for stop in self._stops]
        self._firsts = frozenset(stop[0] for stop in self._stops)
        # How many first characters of each stop string the text ends with at present.
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.stopped = False
        self.found = ""
        """The stop string that was reached."""

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text that may be shown now, and whether a stop string was reached.

        Once one was reached, later calls return no text.
        """
        if self.stopped:
            return "", True
        if not self._held and self._firsts.isdisjoint(text):
            return text, False
        shown = self._held + text
        for at, char in enumerate(text, len(self._held) + 1):
            for i, stop in enumerate(self._stops):
                n = _advance(stop, self._borders[i], self._matched[i], char)
                if n == len(stop):
                    self.stopped, self._held, self.found = True, "", stop
                    return shown[:at - n], True
                self._matched[i] = n
        n_held = max(self._matched, default=0)
        split = len(shown) - n_held
        self._held = shown[split:]
        return shown[:split], False

    def flush(self) -> str:
        """The text that was held back; call it at the end of the stream."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held


def _advance(stop: str, borders: list[int], n: int, char: str) -> int:
    """How many first characters of ``stop`` the text ends with after ``char`` is added; before it
    were ``n``."""
    while n and stop[n] != char:
        n = borders[n - 1]
    return n + 1 if stop[n] == char else 0


def _borders(stop: str) -> list[int]:
    """The length of the longest border of each prefix of ``stop`` (Knuth, Morris, Pratt 1977)."""
    borders = [0]
    for char in stop[1:]:
        borders.append(_advance(stop, borders, borders[-1], char))
    return borders
