"""Formats tables and paragraphs to fit the terminal; in a pipe tables may be wider."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

PIPED: Final = 100
"""Columns of paragraphs where stdout isn't a terminal."""
NARROWEST: Final = 40
"""Columns that a terminal is assumed to have at least."""

Row = Sequence[str]


def width() -> int:
    """Columns of the terminal, at least :data:`NARROWEST`; :data:`PIPED` where stdout isn't one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return PIPED
    return max(NARROWEST, shutil.get_terminal_size().columns)


def room() -> int:
    """:func:`width`, but unlimited where stdout isn't a terminal: a program that reads it needn't
    have lines wrapped."""
    return width() if sys.stdout is not None and sys.stdout.isatty() else sys.maxsize


def aligned(rows: Sequence[Row], gap: str = "  ") -> list[str]:
    """A line for each row. The first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join([row[0].ljust(widths[0]),
                      *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True))]
                     ).rstrip() for row in rows]


def fitted(head: Row, rows: Sequence[Row], columns: int, *, idle: Sequence[str] = ()) -> list[str]:
    """A table under ``head``, in ``columns`` columns of text. If it is too wide, table columns
    whose cells are all in ``idle`` are left out. If that isn't enough, each row becomes a list."""
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
    """``text`` in lines of at most ``columns``; lines after the first begin with ``indent``.
    ``keep``: keep all spaces of a text that fits on one line."""
    if len(text) <= columns and (keep or "\n" not in text):
        return [text]
    lead = text[:len(text) - len(text.lstrip())]
    first, space, rest = _head(text.lstrip(), indent)
    lines = wrap(rest, columns, initial_indent=lead + first + space,
                 subsequent_indent=indent or lead, break_on_hyphens=False)
    return lines or [""]


def _head(text: str, indent: str) -> tuple[str, str, str]:
    """Splits ``text`` into a first name, the spaces after it, and the rest, so that wrapping keeps
    the column of the rest."""
    match = re.match(r"(\S+(?: \S+)*)(  +)(?=\S)", text) if indent else None
    return (match[1], match[2], text[match.end():]) if match else ("", "", text)


def entry(name: str, text: str, columns: int, *, at: int) -> list[str]:
    """``name`` and, from column ``at`` on, ``text``; below ``name`` where that is too long or the
    terminal is too narrow."""
    if not text:
        return [name]
    if len(name) < at and (columns >= 2 * at + 20 or at + len(text) <= columns):
        return paragraph(f"{name:{at}}{text}", columns, " " * at, keep=True)
    lead = " " * (len(name) - len(name.lstrip()) + 4)
    return [*paragraph(name, columns), *paragraph(lead + text, columns)]


def legend(words: Mapping[str, str], columns: int) -> list[str]:
    """The meaning of each of ``words``, on one line or more."""
    at = max(map(len, words), default=0) + 2
    return [line for word, meaning in words.items()
            for line in paragraph(f"{word:{at}}{meaning}", columns, " " * at, keep=True)]
