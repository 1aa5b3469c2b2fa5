"""Answers that are sent while they are written, and whole ones. Both end when the client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unladen.server.faults import Fault
from unladen.server.visit import Visit, visit_of

log = logging.getLogger("unladen.server")

_T = TypeVar("_T")

SSE = "text/event-stream"
"""The media type of server-sent events."""
NDJSON = "application/x-ndjson"
"""The media type of one JSON object a line."""


class Gone(Exception):
    """The client left."""


class Streamed(Response):
    """Sends ``chunks`` as they come; headers go out at once.

    * ``chunks``: generator of the bytes to send.
    * ``held``: what the generator needs; it is left at the end, also if the client left before the
      first byte.
    * ``failed``: the bytes that tell the client of a fault after the first byte.
    * ``heartbeat``: the bytes that show that the server lives, sent after ``interval`` seconds
      without anything.
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None], held: contextlib.AsyncExitStack, *,
                 failed: Callable[[Fault], bytes], heartbeat: Callable[[], bytes],
                 interval: float, media_type: str = SSE,
                 headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-cache", "X-Accel-Buffering": "no",
                                     **(headers or {})}, media_type)
        self.raw_headers = [each for each in self.raw_headers if each[0] != b"content-length"]
        self._chunks, self._held = chunks, held
        self._failed, self._heartbeat, self._interval = failed, heartbeat, interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, or stop when the client leaves."""
        ending = asyncio.ensure_future(_closing(scope))
        sending = asyncio.ensure_future(self._send(visit_of(scope), send, ending))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            ending.cancel()
            if not sending.done():
                sending.cancel()
            try:
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await sending
            finally:
                await self._chunks.aclose()
                await self._held.aclose()
                del sending, ending

    async def _send(self, visit: Visit | None, send: Send, ending: asyncio.Future[Fault]) -> None:
        await send({"type": "http.response.start", "status": self.status_code,
                    "headers": self.raw_headers})
        await self._send_chunks(visit, send, ending)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, visit: Visit | None, send: Send, ending: asyncio.Future[Fault]
                           ) -> None:
        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def fail(fault: Fault) -> None:
            if visit is not None:
                visit.fault = fault.kind
            await write(self._failed(fault))

        upcoming: asyncio.Future[bytes] | None = None
        done: asyncio.Future[bytes] | None = None
        try:
            while True:
                if upcoming is None:
                    upcoming = asyncio.ensure_future(anext(self._chunks))
                await asyncio.wait((upcoming, ending), timeout=self._interval,
                                   return_when=asyncio.FIRST_COMPLETED)
                if not upcoming.done():
                    if ending.done():
                        raise ending.result()
                    await write(self._heartbeat())
                    continue
                done, upcoming = upcoming, None
                await write(done.result())
                if ending.done():  # pieces may come so fast that there always is a next one
                    raise ending.result()
        except StopAsyncIteration:
            pass  # nothing more is to be sent
        except Fault as fault:
            await fail(fault)
        except Exception as error:
            log.error("a stream failed", exc_info=error)
            await fail(Fault("internal", "the server failed", hint="the server's log says why"))
        finally:
            if upcoming is not None:
                upcoming.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await upcoming
            # An exception that one of these holds refers to this frame. Without this, the memory
            # of a request waits for the garbage collector.
            upcoming = done = None
            del ending


async def whole(request: Request, work: Awaitable[_T]) -> _T:
    """The result of ``work``, which is cancelled if the client leaves; then :class:`Gone` is
    raised. A ``Fault`` is raised where the server ends first. The body must have been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request.receive))
    ending = asyncio.ensure_future(_closing(request.scope))
    try:
        await asyncio.wait((working, leaving, ending), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            if ending.done():
                raise ending.result()
            raise Gone
        return working.result()
    finally:
        leaving.cancel()
        ending.cancel()
        if not working.done():
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        del working, ending  # as in Streamed


async def begun(request: Request, context: AbstractAsyncContextManager[AsyncIterator[_T]]
                ) -> tuple[AsyncIterator[_T], contextlib.AsyncExitStack]:
    """The events of ``context`` once the first one is there, and a stack that leaves ``context``.
    A ``Fault`` up to then is raised here, before the first byte, so it has a status of its own."""
    held = contextlib.AsyncExitStack()

    async def first() -> tuple[AsyncIterator[_T], list[_T]]:
        events = await held.enter_async_context(context)
        return events, [event async for event in _one(events)]

    try:
        events, known = await whole(request, first())
    except BaseException:
        await held.aclose()
        raise
    return _after(known, events), held


async def _one(events: AsyncIterator[_T]) -> AsyncIterator[_T]:
    with contextlib.suppress(StopAsyncIteration):
        yield await anext(events)


async def _after(known: list[_T], events: AsyncIterator[_T]) -> AsyncIterator[_T]:
    for event in known:
        yield event
    async for event in events:
        yield event


async def _closing(scope: Mapping[str, Any]) -> Fault:
    """Wait until running requests must end; returns how they fail."""
    visit = visit_of(scope)
    await (asyncio.Event() if visit is None else visit.closing).wait()
    return Fault("closing", "the server shuts down", hint="try again when it is back",
                 retry_after=1)


async def _left(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
