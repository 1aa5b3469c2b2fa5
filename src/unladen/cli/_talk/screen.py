"""Shows answers while they are written: with Markdown on a terminal, as plain text elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from unladen.chat.deltas import (
    CallArguments,
    CallBegun,
    CallFinished,
    ContentDelta,
    Delta,
    ReasoningDelta,
)
from unladen.cli._table import paragraph
from unladen.cli._talk.live import LastRows
from unladen.cli._talk.markdown import NARROWEST, MarkdownRows, MarkdownStream
from unladen.cli._text import DIM, NORMAL, has_styles, visible

if TYPE_CHECKING:
    from unladen.chat.completion import ChatCompletion

CALL: Final = "\x1b[36m"
"""The style of calls."""
CALLS: Final = "calls "
"""Stands before the name of a tool that the model calls."""
ENDS: Final = {"length": "max_tokens ended it", "context": "the context is full",
               "deadline": "the deadline ended it", "cancelled": "stopped", "stop": "", "eos": "",
               "tool_calls": ""}
"""Why an answer ended, where that isn't what one expects."""


class Screen(Protocol):
    """Where answers are shown."""

    def show(self, delta: Delta) -> None:
        """Take what happens in an answer."""

    def draw(self) -> None:
        """Show all that was taken."""

    def aside(self, text: str) -> None:
        """Show a log line in the middle of an answer."""

    def end(self) -> None:
        """The answer has ended: what comes next begins on a row of its own."""

    def says(self, text: str) -> None:
        """Show what the program itself says."""

    def took(self, answer: ChatCompletion) -> None:
        """Show how long ``answer`` took."""


def screen() -> Screen:
    """What fits stdout."""
    if not sys.stdout.isatty():
        return PlainScreen(is_terminal=False)
    if not has_styles():
        return PlainScreen(is_terminal=True)
    return RichScreen()


class PlainScreen:
    """Text as it comes. ``is_terminal``: control characters are escaped, and reasoning is shown; in
    a pipe there is the answer alone, unchanged."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._part: type | None = None
        self._at_start = True

    def show(self, delta: Delta) -> None:
        """See :class:`Screen`."""
        if isinstance(delta, ReasoningDelta):
            if self._is_terminal:
                self._begin(ReasoningDelta, "[thinking]\n")
                self._write(delta.text)
        elif isinstance(delta, ContentDelta):
            after = self._part is ReasoningDelta
            text = delta.text.lstrip("\n") if self._part is not ContentDelta else delta.text
            if text:
                self._begin(ContentDelta, "[answer]\n" if after else "")
                self._write(text)
        elif isinstance(delta, CallBegun):
            self._part = None
            self._begin(CallBegun, f"{CALLS}{delta.name} ")
        elif isinstance(delta, CallArguments):
            self._write(delta.text)

    def draw(self) -> None:
        """See :class:`Screen`."""
        sys.stdout.flush()

    def aside(self, text: str) -> None:
        """See :class:`Screen`."""
        if not self._at_start and self._is_terminal:
            self._write("\n")
        sys.stdout.flush()
        sys.stderr.write(text)

    def end(self) -> None:
        """See :class:`Screen`."""
        if not self._at_start:
            self._write("\n")
        self._part = None
        sys.stdout.flush()

    def says(self, text: str) -> None:
        """See :class:`Screen`."""
        print(visible(text, keep="\n\t"), file=sys.stdout if self._is_terminal else sys.stderr,
              flush=True)

    def took(self, answer: ChatCompletion) -> None:
        """See :class:`Screen`."""
        if self._is_terminal:
            self.says(f"[{timing(answer)}]")

    def _begin(self, part: type, title: str) -> None:
        if self._part is not part:
            if not self._at_start:
                self._write("\n")
            self._write(title)
            self._part = part

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(visible(text, keep="\n\t") if self._is_terminal else text)
            self._at_start = text.endswith("\n")


class RichScreen:
    """A terminal with colours: see :mod:`unladen.cli._talk.markdown`."""

    def __init__(self) -> None:
        from rich.console import Console
        found: Any = Console(file=sys.stdout).color_system
        self._rows = MarkdownRows(found or "standard")
        self._last = LastRows(self._write, self._size)
        self._part: type | None = None
        self._markdown: MarkdownStream | None = None
        self._held = ""  # white space that may be the end of the reasoning
        self._has_any = False

    def show(self, delta: Delta) -> None:
        """See :class:`Screen`."""
        if isinstance(delta, ReasoningDelta):
            self._reasoning(visible(delta.text, keep="\n\t"))
        elif isinstance(delta, ContentDelta):
            self._content(visible(delta.text, keep="\n\t"))
        elif isinstance(delta, CallBegun):
            self._end_part()
            self._begin(CallBegun)
            self._write(f"{CALL}{CALLS}{visible(delta.name)} ")
        elif isinstance(delta, CallArguments):
            self._write(visible(delta.text))
        elif isinstance(delta, CallFinished):
            self._end_part()

    def draw(self) -> None:
        """See :class:`Screen`."""
        if self._markdown is not None:
            self._markdown.draw()
        sys.stdout.flush()

    def aside(self, text: str) -> None:
        """See :class:`Screen`."""
        if self._markdown is not None:
            self._markdown.erase()
        elif self._part is not None:
            self._write("\n")
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
        self.draw()

    def end(self) -> None:
        """See :class:`Screen`."""
        self._end_part()
        self._has_any = False
        sys.stdout.flush()

    def says(self, text: str) -> None:
        """See :class:`Screen`."""
        columns = max(NARROWEST, self._size()[0] - 1)
        rows = [row for line in visible(text, keep="\n\t").split("\n")
                for row in (paragraph(line, columns, "  ") if len(line) > columns else [line])]
        self._write("\n".join(rows) + "\n")
        sys.stdout.flush()

    def took(self, answer: ChatCompletion) -> None:
        """See :class:`Screen`."""
        columns = max(1, self._size()[0] - 1)
        self.says("")
        self._write(f"{DIM}{timing(answer)[:columns]}{NORMAL}\n")
        sys.stdout.flush()

    def _reasoning(self, text: str) -> None:
        if self._part is not ReasoningDelta:
            text = text.lstrip()
            if not text:
                return
            self._end_part()
            self._begin(ReasoningDelta)
            self._write(DIM)
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown):]
        self._write(shown)

    def _content(self, text: str) -> None:
        if self._part is not ContentDelta:
            text = text.lstrip("\n")
            if not text:
                return
            self._end_part()
            self._begin(ContentDelta)
            self._markdown = MarkdownStream(self._rows, self._last, lambda: self._size()[0])
        assert self._markdown is not None
        self._markdown.feed(text)

    def _begin(self, part: type) -> None:
        if self._has_any:
            self._write("\n")
        self._part, self._has_any = part, True

    def _end_part(self) -> None:
        if self._markdown is not None:
            self._markdown.end()
        elif self._part is not None:
            self._write(f"{NORMAL}\n")
        self._part, self._markdown, self._held = None, None, ""

    def _write(self, text: str) -> None:
        sys.stdout.write(text)

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            size = shutil.get_terminal_size()  # a stream without a terminal's descriptor
        return (size.columns or 80, size.lines or 24)


def timing(answer: ChatCompletion) -> str:
    """What ``answer`` took, in words."""
    t, u = answer.timings, answer.usage
    why = ENDS[answer.stop_reason]
    words = [f"{u.n_completion} tokens" + (f" at {t.completion_per_second:.1f}/s"
                                           if t.completion_per_second else ""),
             f"prompt {u.n_prompt}" + (f" ({u.n_cached} cached)" if u.n_cached else "")]
    if u.n_truncated:
        words.insert(0, f"{u.n_truncated} tokens of the conversation left out")
    return ", ".join([*([why] if why else []), *words])
