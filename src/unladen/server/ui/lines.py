"""Keeps the last lines of the server's log for the page."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from unladen.server.ui.shapes import Line, Lines

KEPT: Final = 2000
"""Lines that are kept."""
LONGEST: Final = 4000
"""Characters of a line that are kept."""


class LogLines(logging.Handler):
    """Keeps what the package logs, from :meth:`begin` to :meth:`end`. ``told`` gets each line; it
    may be called by any thread."""

    def __init__(self, told: Callable[[Line], None]) -> None:
        super().__init__(logging.INFO)
        self._told = told
        self._kept: deque[Line] = deque(maxlen=KEPT)
        self._last = 0
        self._level = logging.NOTSET
        self.setFormatter(logging.Formatter("%(message)s"))

    def begin(self) -> None:
        """Keep lines from now on."""
        logging.getLogger("unladen").addHandler(self)

    def end(self) -> None:
        """Keep no more lines."""
        logging.getLogger("unladen").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except (TypeError, ValueError):  # arguments that don't fit; logging prints where that was
            self.handleError(record)
            return
        level = record.levelno
        name = ("debug" if level < logging.INFO else "info" if level < logging.WARNING else
                "warning" if level < logging.ERROR else "error")
        self._last += 1  # the handler's lock is held
        line = Line(n=self._last, time=record.created, level=name, text=text[:LONGEST])
        self._kept.append(line)
        self._told(line)

    def after(self, n: int) -> Lines:
        """The kept lines after number ``n``."""
        assert self.lock is not None
        with self.lock:
            return Lines(lines=[line for line in self._kept if line["n"] > n], last=self._last)
