"""How long a model stays loaded when nobody asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from unladen.server.core import Wish
from unladen.server.settings import ModelSettings, Settings


class Staying:
    """Calls ``expired`` where nobody asked for long enough after :meth:`arm`. The last request says
    how long that is, else the model's or the server's settings.

    :attr:`expires`: when that is, in seconds since 1970; None: it isn't armed.
    """

    def __init__(self, own: ModelSettings, settings: Settings, expired: Callable[[], None]) -> None:
        self._usual = settings.keep_alive if own.keep_alive is None else own.keep_alive
        self._seconds = self._usual
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self.expires: float | None = None

    def ask(self, wish: Wish) -> None:
        """Take note of a request."""
        self._seconds = self._usual if wish.keep_alive is None else wish.keep_alive
        self.disarm()

    def arm(self) -> None:
        """Begin to wait: the last request has ended."""
        self.disarm()
        if self._seconds >= 0:
            self.expires = time.time() + self._seconds
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expired)

    def disarm(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.expires = None
