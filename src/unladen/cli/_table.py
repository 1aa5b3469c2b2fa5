"""Tables and paragraphs that fit the terminal, and are as wide as they want to be in a pipe."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

PIPED: Final = 100
"""Columns where stdout is no terminal, for what has no width of its own."""
NARROWEST: Final = 40

Row = Sequence[str]


def width() -> int:
    """Columns of the terminal, at least :data:`NARROWEST`; :data:`PIPED` where stdout is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return PIPED
    return max(NARROWEST, shutil.get_terminal_size().columns)


def room() -> int:
    """:func:`width`, but without an end where stdout is no terminal: a program cuts lines itself.
    """
    return width() if sys.stdout is not None and sys.stdout.isatty() else sys.maxsize


def aligned(rows: Sequence[Row], gap: str = "  ") -> list[str]:
    """A line for each row: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join([row[0].ljust(widths[0]),
                      *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True))]
                     ).rstrip() for row in rows]


def fitted(head: Row, rows: Sequence[Row], columns: int, *, idle: Sequence[str] = ()) -> list[str]:
    """A table under ``head`` in ``columns``: where it is too wide, first without the columns in
    which nobody has more than ``idle`` says, then with each row as a list of its own."""
    lines = aligned([head, *rows])
    if max(map(len, lines)) <= columns:
        return lines
    used = [i for i in range(len(head))
            if i == 0 or any(row[i] not in idle for row in rows)]
    narrow = [[row[i] for i in used] for row in (head, *rows)]
    lines = aligned(narrow)
    if max(map(len, lines)) <= columns:
        return lines
    return [line for row in narrow[1:] for line in _stacked(narrow[0], row, columns)]


def _stacked(head: Row, row: Row, columns: int) -> Iterator[str]:
    yield from paragraph(row[0], columns)
    names = max(map(len, head[1:]), default=0)
    values = max(map(len, row[1:]), default=0)
    for name, value in zip(head[1:], row[1:], strict=True):
        yield from paragraph(f"  {name:{names}}  {value:>{values}}", columns, keep=True)


def paragraph(text: str, columns: int, indent: str = "", *, keep: bool = False) -> list[str]:
    """``text`` in lines of at most ``columns``, those after the first behind ``indent``; ``keep``:
    its spaces as they are where it fits."""
    if len(text) <= columns and (keep or "\n" not in text):
        return [text]
    lead = text[:len(text) - len(text.lstrip())]
    first, space, rest = _head(text.lstrip(), indent)
    lines = wrap(rest, columns, initial_indent=lead + first + space,
                 subsequent_indent=indent or lead, break_on_hyphens=False)
    return lines or [""]


def _head(text: str, indent: str) -> tuple[str, str, str]:
    """A name in front of columns, the spaces behind it, and the rest: wrapping keeps these."""
    match = re.match(r"(\S+(?: \S+)*)(  +)(?=\S)", text) if indent else None
    return (match[1], match[2], text[match.end():]) if match else ("", "", text)


def entry(name: str, text: str, columns: int, *, at: int) -> list[str]:
    """``text`` behind ``name``, from column ``at`` on; below it where ``name`` is too long or the
    terminal too narrow."""
    if not text:
        return [name]
    if len(name) < at and (columns >= 2 * at + 20 or at + len(text) <= columns):
        return paragraph(f"{name:{at}}{text}", columns, " " * at, keep=True)
    lead = " " * (len(name) - len(name.lstrip()) + 4)
    return [*paragraph(name, columns), *paragraph(lead + text, columns)]


def legend(words: Mapping[str, str], columns: int) -> list[str]:
    """What ``words`` mean, one a line or, where they need more, several."""
    at = max(map(len, words), default=0) + 2
    return [line for word, meaning in words.items()
            for line in paragraph(f"{word:{at}}{meaning}", columns, " " * at, keep=True)]
