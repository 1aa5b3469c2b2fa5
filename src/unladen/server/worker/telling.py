"""Passes the worker's log on to its server, which writes it where it writes its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.server.worker.link import Link


class _Teller(logging.Handler):
    def __init__(self, link: Link) -> None:
        super().__init__(logging.INFO)
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that don't fit; logging prints where that was
            self.handleError(record)
            return
        self._link.send([["log", record.levelno, text]])


def tell_log(link: Link) -> None:
    """Send lines of the package's log from now on over ``link``, warnings and what is worth
    knowing."""
    package = logging.getLogger("unladen")
    package.setLevel(logging.INFO)
    package.addHandler(_Teller(link))
    package.propagate = False
