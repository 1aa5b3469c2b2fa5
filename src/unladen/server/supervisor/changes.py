"""Lets tasks wait until something holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Changes:
    """What tasks wait for is looked at again after each :meth:`tell`."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Wake those who wait: something is different."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` holds."""
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
