"""Asks a process of its own for what needs models' headers or the hub."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.supervisor.process import Worker

ANSWER_SECONDS: Final = 120.0
"""Seconds after which a question counts as hung, and the process with it: a hostile header may take
for ever."""
IDLE_SECONDS: Final = 300.0
"""Seconds without a question after which the process is ended, and its memory free again."""


class Desk:
    """The process, which is started at the first question. Close it at the end."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._starting = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def ask(self, kind: str, *content: Any) -> Any:
        """The answer to a question. Raises its ``Fault``. Where the caller is cancelled, the
        process drops a question that it hasn't begun with."""
        worker = await self._started()
        self._last += 1
        number = self._last
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        worker.send(["ask", number, kind, list(content)])
        try:
            await asyncio.wait((asked, worker.gone), timeout=ANSWER_SECONDS,
                               return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                worker.kill("a question took too long")
                raise Fault("internal", "the process that looks at models took too long, or ended",
                            hint="the server's log may say more")
            return asked.result()
        finally:
            del self._asked[number]
            if not asked.done() and not worker.gone.done():
                worker.send(["drop", number])
            self._rest()

    async def close(self) -> None:
        """End the process."""
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        if self._worker is not None:
            self._worker.kill("the server shuts down")
            await self._worker.gone

    async def _started(self) -> Worker:
        async with self._starting:
            if self._is_closed:
                raise Fault("closing", "the server shuts down", hint="try again when it is back",
                            retry_after=1)
            if self._idle is not None:
                self._idle.cancel()
            if self._worker is None or self._worker.gone.done():
                self._worker = await Worker.start(["desk"], self._handle)
            return self._worker

    def _rest(self) -> None:
        if self._asked or self._worker is None or self._is_closed:
            return
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(
            IDLE_SECONDS, self._worker.kill, "nobody asked it anything")

    def _handle(self, message: Message) -> None:
        kind, number, content = message
        asked = self._asked.get(number)
        if asked is None or asked.done():
            return
        if kind == "answered":
            asked.set_result(content)
        else:
            asked.set_exception(Fault.unpack(content))
