"""Notices a worker that hangs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Final

from unladen.server.settings import Settings
from unladen.server.supervisor.process import Worker

BEATS: Final = 4
"""Pings in the time after which a worker that doesn't answer is ended."""
MAX_BEAT: Final = 1.0
"""Seconds between two pings at most. An answer to one also tells how many tokens were written, and
people watch how fast that goes."""


class Watch:
    """Ends ``worker`` where it hangs: it loads nothing for ``load_s`` before ``ready`` is done, or
    then answers no pings for ``hang_s``, or makes no step for so long while ``is_busy()``.

    Beats are counted, not seconds: a server that was stopped itself blames no worker.

    :attr:`tokens_per_second`: how fast the worker wrote between its last two answers.
    """

    def __init__(self, settings: Settings, worker: Worker, ready: asyncio.Future[Any],
                 is_busy: Callable[[], bool]) -> None:
        self._settings, self._worker, self._ready, self._is_busy = settings, worker, ready, is_busy
        self._beat = min(MAX_BEAT, settings.hang_s / BEATS)
        self._n_most = math.ceil(settings.hang_s / self._beat)
        self._n_missed = self._n_still = 0
        self._n_steps = -1
        self._progressed = time.monotonic()
        self._is_moving = False
        self._written = 0, self._progressed
        self.tokens_per_second = 0.0
        self._task = asyncio.ensure_future(self._watch())

    def progressed(self) -> None:
        """More of the model is loaded."""
        self._progressed = time.monotonic()

    def answered(self, n_steps: int, n_written: int) -> None:
        """The worker answered a ping, after ``n_steps`` steps and ``n_written`` tokens of
        answers."""
        n_before, then = self._written
        self._written = n_written, time.monotonic()
        seconds = self._written[1] - then
        self.tokens_per_second = (n_written - n_before) / seconds if seconds > 0 else 0.0
        self._n_missed = 0
        self._n_still = self._n_still + 1 if n_steps == self._n_steps else 0
        self._n_steps = n_steps

    def moves(self, is_moving: bool) -> None:
        """The model begins or ends to move. Meanwhile it makes no steps, and has as long as a load
        has."""
        self._is_moving = is_moving
        self._n_missed = self._n_still = 0
        self.progressed()

    def stop(self) -> None:
        """Watch no more."""
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._beat)
            if self._is_moving or not self._ready.done():
                if time.monotonic() - self._progressed > self._settings.load_s:
                    self._worker.kill(f"it {'moved' if self._is_moving else 'loaded'} nothing for "
                                      f"{self._settings.load_s:g} seconds")
                continue
            if not self._is_busy():
                self._n_still = 0
            if self._n_missed >= self._n_most:
                self._worker.kill(f"it hung: no sign of life for {self._settings.hang_s:g} seconds")
            elif self._n_still >= self._n_most:
                self._worker.kill(f"it hung: no step for {self._settings.hang_s:g} seconds")
            self._n_missed += 1
            self._worker.send(["ping"])
