"""Events for the page, numbered, so that a page that was away gets those that it missed."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

KEPT: Final = 1000
"""Events that are kept for pages that come back."""
MOST_WAITING: Final = 2000
"""Events that may wait for one page. A page that takes none for so long begins again."""


@dataclass(frozen=True, slots=True)
class Told:
    """The event number ``n``, of the kind ``name``."""

    n: int
    name: str
    data: Any

    def line(self) -> bytes:
        """The event as the page reads it."""
        text = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.n}\nevent: {self.name}\ndata: {text}\n\n".encode("utf-8", "replace")


class Feed:
    """The events of a server. :attr:`last`: the number of the last one."""

    def __init__(self) -> None:
        self.last = 0
        self._kept: deque[Told] = deque(maxlen=KEPT)
        self._listeners: set[asyncio.Queue[Told | None]] = set()

    @property
    def is_heard(self) -> bool:
        """Whether a page listens."""
        return bool(self._listeners)

    def tell(self, name: str, data: Any, *, keep: bool = False) -> None:
        """Send an event to all who listen. ``keep``: also to those who come back later."""
        self.last += 1
        told = Told(self.last, name, data)
        if keep:
            self._kept.append(told)
        for each in list(self._listeners):
            if each.qsize() < MOST_WAITING:
                each.put_nowait(told)
            else:
                self._listeners.discard(each)
                each.put_nowait(None)

    def end(self) -> None:
        """Let all streams of events end."""
        for each in self._listeners:
            each.put_nowait(None)
        self._listeners.clear()

    async def events(self, after: int | None) -> AsyncIterator[Told]:
        """Kept events after number ``after``, None: no kept ones, then all that come. Ends where
        the caller takes events too slowly."""
        queue: asyncio.Queue[Told | None] = asyncio.Queue()
        if after is not None:
            for told in self._kept:
                if told.n > after:
                    queue.put_nowait(told)
        self._listeners.add(queue)
        try:
            while (told_next := await queue.get()) is not None:
                yield told_next
        finally:
            self._listeners.discard(queue)
