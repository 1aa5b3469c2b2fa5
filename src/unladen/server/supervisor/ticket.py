"""A client's request on its way through the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from unladen.server.asked import Asked, pack
from unladen.server.core import Wish
from unladen.server.events import Begun, Ended, Event, Result, Waiting
from unladen.server.faults import Fault
from unladen.server.ipc import Message

MAX_TRIES: Final = 2
"""How often a request is given to a worker at most: the second time where the first worker died
before it wrote anything."""


class Ticket:
    """The request ``asked`` with the number ``id``. What comes back waits here until the client's
    task takes it."""

    def __init__(self, id: int, asked: Asked, wish: Wish) -> None:  # noqa: A002
        self.id, self.wish = id, wish
        self._packed = pack(asked)
        self.came = time.monotonic()
        self.until = None if wish.deadline is None else self.came + wish.deadline
        self.n_tries = 0
        self.is_sent = self.is_started = self.is_done = self.has_failed = False
        self.has_output = False
        """Something that the client keeps was written: the request can't be begun again."""
        self.timer: asyncio.TimerHandle | None = None
        """Ends the request at its deadline."""
        self._has_begun = False
        self._waited_for_load = 0.0
        self._sent = self.came
        self._items: asyncio.Queue[Event | Result | Fault | None] = asyncio.Queue()

    def message(self, load_s: float) -> Message:
        """The message that gives the request to a worker, which took ``load_s`` of the waiting
        time to load."""
        now = time.monotonic()
        self.n_tries += 1
        self.is_sent, self._sent, self._waited_for_load = True, now, load_s
        treatment: dict[str, float] = {}
        if self.wish.caller.priority:
            treatment["priority"] = self.wish.caller.priority
        if self.until is not None:
            treatment["deadline"] = max(0.0, self.until - now)
        return ["ask", self.id, self._packed, treatment]

    def put(self, item: Event | Result) -> None:
        """Take what a worker sent."""
        if isinstance(item, Begun):
            if self._has_begun:
                return  # a second worker began again
            self._has_begun = True
        elif isinstance(item, Ended):
            self.has_output = True
            queued = max(0.0, self._sent - self.came - self._waited_for_load)
            item = replace(item, load_s=self._waited_for_load, wait_s=item.wait_s + queued)
        elif not isinstance(item, Waiting):
            self.has_output = True
        self._items.put_nowait(item)

    def can_be_retried(self) -> bool:
        """Whether another worker may begin the request again."""
        return not self.has_output and self.n_tries < MAX_TRIES

    def wait_again(self) -> None:
        """Wait for another worker."""
        self.is_sent = self.is_started = False

    def end(self, fault: Fault | None = None) -> None:
        """Nothing more comes. ``fault``: why the request failed."""
        if not self.is_done:
            self.is_done, self.has_failed = True, fault is not None
            self._items.put_nowait(fault)

    async def items(self) -> AsyncIterator[Event | Result]:
        """What comes back, in its order. Raises the fault of a request that failed."""
        while (item := await self._items.get()) is not None:
            if isinstance(item, Fault):
                raise item
            yield item
