"""Splits Markdown that arrives in pieces into blocks. A block that is given out is complete: what
comes later doesn't change it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*")
"""The line that opens a block of code."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item, table or the like, as Markdown. ``gap``: an empty line is
    before it."""

    source: str
    gap: bool = False


@dataclass(frozen=True, slots=True)
class FenceOpened:
    """A block of code begins with the line ``text``."""

    text: str
    language: str
    gap: bool


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code."""

    text: str


@dataclass(frozen=True, slots=True)
class FenceClosed:
    """The block of code ends with the line ``text``; "" where the text ends in it."""

    text: str


Piece = Block | FenceOpened | CodeLine | FenceClosed


def parser() -> MarkdownIt:
    """Reads Markdown with tables and without HTML, which is shown as text."""
    from markdown_it import MarkdownIt
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class Blocks:
    """Markdown as it comes. Lines of code are given out one by one, so a long block of code isn't
    held back; so are the items of a list."""

    def __init__(self) -> None:
        self._parser = parser()
        self._rest = ""
        self._mark = ""  # the fence of the open block of code
        self._has_any = False

    def feed(self, text: str) -> list[Piece]:
        """The blocks that are complete after ``text`` has come."""
        self._rest += text
        pieces: list[Piece] = []
        if "\n" in text:
            while self._take(pieces):
                pass
        return pieces

    def end(self) -> list[Piece]:
        """The last block, after the text has ended."""
        pieces = self.feed("\n") if self._rest and not self._rest.endswith("\n") else []
        if self._mark:
            pieces.append(FenceClosed(""))
        elif self._rest.strip():
            pieces.append(self._block(self._rest))
        self._rest, self._mark = "", ""
        return pieces

    @property
    def rest(self) -> Block | CodeLine | None:
        """The block that isn't complete; None if there is nothing of it yet."""
        if self._mark:
            return CodeLine(self._rest) if self._rest else None
        return Block(self._rest.strip("\n"), self._gap(self._rest)) if self._rest.strip() else None

    def _take(self, pieces: list[Piece]) -> bool:
        """Move what is complete from the rest to ``pieces``; returns whether there may be more."""
        if self._mark:
            return self._take_code(pieces)
        tokens = self._parser.parse(self._rest)
        lines = self._rest.split("\n")
        starts = _starts(tokens)
        if not starts:
            return False
        last = starts[-1]
        for begin, end in pairwise(starts):
            # Empty lines belong to the block after them.
            pieces.append(self._block("\n".join(_taken(lines, begin, end))))
        before = "\n".join(_lead(lines, last)) + "\n" if _lead(lines, last) else ""
        self._rest = before + "\n".join(lines[last:])
        opened = _FENCE.fullmatch(lines[last])
        if opened is None or last == len(lines) - 1:
            return False
        pieces.append(FenceOpened(lines[last], opened[2], self._gap(before)))
        self._has_any = True
        self._mark, self._rest = opened[1], "\n".join(lines[last + 1:])
        return True

    def _take_code(self, pieces: list[Piece]) -> bool:
        *lines, self._rest = self._rest.split("\n")
        for i, line in enumerate(lines):
            closing = line.strip()
            if (closing.startswith(self._mark) and not closing.strip(self._mark[0])
                    and len(line) - len(line.lstrip(" ")) < 4):
                pieces.append(FenceClosed(line))
                self._mark, self._rest = "", "\n".join([*lines[i + 1:], self._rest])
                return True
            pieces.append(CodeLine(line))
        return False

    def _block(self, source: str) -> Block:
        block = Block(source.strip("\n"), self._gap(source))
        self._has_any = True
        return block

    def _gap(self, source: str) -> bool:
        return self._has_any and source.startswith("\n")


def _starts(tokens: list[Token]) -> list[int]:
    """The first lines of the blocks up to the first block of code, and of the items of lists among
    them."""
    found = []
    for token in tokens:
        is_block = token.level == 0 and token.type not in ("bullet_list_open", "ordered_list_open")
        if token.nesting >= 0 and token.map and (
                is_block or (token.level == 1 and token.type == "list_item_open")):
            found.append(token.map[0])
        if token.level == 0 and token.type == "fence":
            break
    return found


def _lead(lines: list[str], begin: int) -> list[str]:
    """The empty lines before the line ``begin``."""
    n = 0
    while n < begin and not lines[begin - 1 - n].strip():
        n += 1
    return [""] * n


def _taken(lines: list[str], begin: int, end: int) -> list[str]:
    return [*_lead(lines, begin), *lines[begin:end]]
