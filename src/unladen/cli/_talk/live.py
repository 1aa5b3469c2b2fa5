"""The last rows of the terminal, which are written again while they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class LastRows:
    """Rows that end where the cursor is. Rows above them are never touched.

    * ``write``: writes to the terminal.
    * ``size``: the terminal's columns and lines.
    """

    def __init__(self, write: Callable[[str], None], size: Callable[[], tuple[int, int]]) -> None:
        self._write, self._size = write, size
        self._rows: list[str] = []
        self._drawn = size()

    def show(self, rows: Sequence[str]) -> None:
        """Show ``rows`` in place of the last ones; only the end of them where they are more than
        the screen has."""
        most = max(1, self._size()[1] - 1)
        self._draw(rows[-most:])

    def keep(self, rows: Sequence[str]) -> None:
        """Show all of ``rows`` in place of the last ones, and leave them: the cursor is on the row
        behind them."""
        if rows or self._rows:
            self._draw(rows)
            self._write("\n" if rows else "")
        self._rows = []

    def _draw(self, rows: Sequence[str]) -> None:
        old, size = self._rows, self._size()
        if size != self._drawn:
            # The terminal may have wrapped the old rows anew, so nobody knows where they begin.
            # They stay, and are written again below; only the row of the cursor is replaced.
            old, self._drawn = old[-1:], size
        same = 0
        while same < min(len(old), len(rows)) and old[same] == rows[same]:
            same += 1
        self._rows = list(rows)
        if same == len(old) == len(rows):
            return
        if same == len(old):
            self._write("\n" * bool(old) + "\n".join(rows[same:]))
        elif same == len(old) - 1 and rows[same:] and rows[same].startswith(old[same]):
            self._write("\n".join([rows[same][len(old[same]):], *rows[same + 1:]]))
        else:
            # The last row is written in any case: the cursor must come to its end.
            same = min(same, max(0, len(rows) - 1))
            up = len(old) - 1 - same
            self._write((f"\x1b[{up}A" if up else "") + "\r"
                        + "\n".join(f"{row}\x1b[K" for row in rows[same:]) + "\x1b[J")
