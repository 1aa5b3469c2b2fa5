"""Shows Markdown on a terminal while it is written; rich makes the rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from unladen.cli._talk.blocks import (
    Block,
    Blocks,
    CodeLine,
    FenceClosed,
    FenceOpened,
    Piece,
    parser,
)
from unladen.cli._talk.live import LastRows

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE_THEME: Final = "ansi_dark"
"""Colours of code: the terminal's own, which fit its background."""
NARROWEST: Final = 20
"""Columns that text is wrapped to at least."""
HIGHLIGHTED: Final = 400
"""Lines of code that are coloured together. In longer blocks the next lines begin anew, so that a
long block doesn't take longer and longer."""
_TRAILING: Final = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)$")
"""Spaces with which rich fills a row."""


class MarkdownRows:
    """Turns Markdown into rows of a terminal. ``colors``: rich's name of its colours, None for
    none."""

    def __init__(self, colors: Any) -> None:
        self._colors = colors
        self._parser = parser()

    def block(self, source: str, columns: int) -> list[str]:
        """The rows of a block."""
        from rich.markdown import Markdown
        tokens = self._parser.parse(source)
        _keep_lines(tokens)
        made = Markdown("", code_theme=CODE_THEME, hyperlinks=False)
        made.parsed = _plain_headings(tokens)
        return self._rows(made, columns)

    def code(self, lines: list[str], language: str, columns: int, first: int = 0) -> list[str]:
        """The rows of ``lines`` of code from the one numbered ``first`` on."""
        from rich.console import Group
        from rich.syntax import Syntax
        known = Syntax("", language or "text", theme=CODE_THEME, background_color="default")
        text = known.highlight("\n".join(lines))
        parts = text.split("\n", allow_blank=True)[first:len(lines)]
        for part in parts:
            part.no_wrap, part.overflow = False, "fold"
        return self._rows(Group(*parts), columns)

    def dim(self, text: str, columns: int) -> list[str]:
        """The rows of ``text`` in a weak colour."""
        from rich.text import Text
        return self._rows(Text(text, "dim", overflow="fold"), columns)

    def _rows(self, made: Any, columns: int) -> list[str]:
        from rich.console import Console
        # A row never fills the last column: terminals disagree about what comes next.
        console = Console(file=StringIO(), force_terminal=True, width=max(NARROWEST, columns - 1),
                          color_system=self._colors, legacy_windows=False, highlight=False,
                          markup=False, emoji=False, _environ={})
        with console.capture() as captured:
            console.print(made, end="")
        rows = [_TRAILING.sub(r"\1", row) for row in captured.get().split("\n")]
        while rows and not rows[-1].strip():
            rows.pop()
        while rows and not rows[0].strip():
            rows.pop(0)
        return rows


class MarkdownStream:
    """Markdown as it comes: what is complete is written once, and only the block that is being
    written is shown again while it changes."""

    def __init__(self, rows: MarkdownRows, last: LastRows, columns: Callable[[], int]) -> None:
        self._made, self._last, self._columns = rows, last, columns
        self._blocks = Blocks()
        self._code: list[str] = []
        self._language = ""
        self._changed = False

    def feed(self, text: str) -> None:
        """More text has come. It is shown by :meth:`draw`, complete blocks are shown at once."""
        for piece in self._blocks.feed(text):
            self._keep(piece)
        self._changed = True

    def draw(self) -> None:
        """Show the block that isn't complete as far as it has come."""
        if not self._changed:
            return
        self._changed = False
        rest = self._blocks.rest
        if isinstance(rest, Block):
            gap = [""] if rest.gap else []
            self._last.show([*gap, *self._made.block(rest.source, self._columns())])
        elif isinstance(rest, CodeLine):
            self._last.show(self._code_rows(rest.text))

    def erase(self) -> None:
        """Take the block that isn't complete from the screen; :meth:`draw` shows it again."""
        self._last.show([])
        self._changed = True

    def end(self) -> None:
        """Show what is left; the next output begins on a row of its own."""
        for piece in self._blocks.end():
            self._keep(piece)
        self._last.keep([])

    def _keep(self, piece: Piece) -> None:
        columns = self._columns()
        if isinstance(piece, Block):
            rows = self._made.block(piece.source, columns)
            self._last.keep([*([""] if piece.gap else []), *rows] if rows else [])
        elif isinstance(piece, FenceOpened):
            self._code, self._language = [], piece.language
            self._last.keep([*([""] if piece.gap else []), *self._made.dim(piece.text, columns)])
        elif isinstance(piece, CodeLine):
            self._last.keep(self._code_rows(piece.text) or [""])
            self._code.append(piece.text)
            if len(self._code) >= HIGHLIGHTED:
                self._code = []
        elif isinstance(piece, FenceClosed) and piece.text:
            self._last.keep(self._made.dim(piece.text, columns))

    def _code_rows(self, line: str) -> list[str]:
        return self._made.code([*self._code, line.expandtabs()], self._language, self._columns(),
                               len(self._code))


def _keep_lines(tokens: list[Token]) -> None:
    """Let line breaks be line breaks: models write verses and addresses so."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


def _plain_headings(tokens: list[Token]) -> list[Token]:
    """Headings as bold paragraphs at the left, in every version of rich."""
    from markdown_it.token import Token
    inside = False
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            inside = token.type == "heading_open"
            token.type, token.tag = f"paragraph_{token.type.partition('_')[2]}", "p"
        elif inside and token.children is not None:
            token.children = [Token("strong_open", "strong", 1), *token.children,
                              Token("strong_close", "strong", -1)]
    return tokens
