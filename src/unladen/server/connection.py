"""Connections with bounds: on their number, on headers, on clients that send or read nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from unladen.server.settings import Settings

if TYPE_CHECKING:
    _Base = H11Protocol
else:
    _Base = object

_REST_S: Final = 0.5
"""Seconds that a client has to take an answer while the server ends and the client still sends the
body of its request."""
_DISCARDED: Final = 4
"""Multiples of ``max_body_bytes`` that a client may send after its body was refused. A client that
sends all before it reads gets to see the answer; ``header_seconds`` bounds the time."""
_MOST_LINES: Final = 1000
"""Lines of a request's headers at most. Each becomes objects of a hundred bytes and more, so that
thousands of short ones would take megabytes."""
_END: Final = re.compile(rb"\n\r?\n")
"""The end of headers, as parsers take it."""
_RETRY_S: Final = 1
"""Seconds after which a client may try again where too many connections are open."""


class Alarm:
    """Calls a function after a time, unless it is stopped."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Whether the function is yet to be called."""
        return self._handle is not None

    def start(self, loop: asyncio.AbstractEventLoop, seconds: float, then: Callable[[], object]
              ) -> None:
        """Call ``then`` after ``seconds``, and not what was to be called before."""
        self.stop()
        self._handle = loop.call_later(seconds, self._ring, then)

    def stop(self) -> None:
        """Call nothing."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self, then: Callable[[], object]) -> None:
        self._handle = None
        then()


class Bounded(_Base):
    """A protocol of uvicorn's with the bounds of :attr:`settings`.

    uvicorn has none on the time that a client takes for its headers, and none on one that reads
    nothing; such connections would stay open for ever.
    """

    settings: Settings
    _n_unread = 0
    """Bytes of headers, or of a body that was answered before its end."""
    _n_lines = 0
    """Lines of the headers that have come."""
    _tail = b""
    """The last bytes of these headers, which may be a part of their end."""
    _is_ending = False
    """The server takes no more requests."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._reading, self._writing = Alarm(), Alarm()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        # What the client doesn't take pauses the writing, so that the time is counted. A limit of
        # 0 would pause TLS for ever.
        transport.set_write_buffer_limits(high=1, low=0)
        if len(self.connections) > self.settings.max_connections and not self._closed_another():
            self._refuse(b"503 Service Unavailable", b"retry-after: %d\r\n" % _RETRY_S)
        else:
            self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        if self.transport.is_closing():
            return
        if self._is_between():
            if not self._has_rest() and self._has_too_large_headers(data):
                self._refuse(b"431 Request Header Fields Too Large")
                return
            self._n_unread += len(data)
            if not self._reading.is_set:
                self._expect_headers()
        super().data_received(data)
        if not self._is_between():
            self._n_unread = self._n_lines = 0
            self._tail = b""
            self._reading.stop()
        elif self._has_rest():
            if self._n_unread > _DISCARDED * self.settings.max_body_bytes:
                self.transport.close()
        elif self._n_unread > self.settings.max_header_bytes:
            self._refuse(b"431 Request Header Fields Too Large")

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._reading.stop()
        self._writing.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See :class:`asyncio.BaseProtocol`."""
        super().pause_writing()
        self._writing.start(self.loop, self.settings.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """See :class:`asyncio.BaseProtocol`."""
        super().resume_writing()
        self._writing.stop()

    def on_response_complete(self) -> None:
        """uvicorn calls this when an answer is complete."""
        super().on_response_complete()
        if self._has_rest():
            self._expect_headers()

    def shutdown(self) -> None:
        """uvicorn calls this when the server ends."""
        self._is_ending = True
        super().shutdown()

    def _is_between(self) -> bool:
        """Whether no request is answered now. uvicorn makes a cycle when headers are complete, and
        keeps it when its answer is."""
        return self.cycle is None or self.cycle.response_complete

    def _has_rest(self) -> bool:
        """Whether the rest of a body comes whose request was answered already."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def _has_too_large_headers(self, data: bytes) -> bool:
        """Whether headers that begin or go on with ``data`` are over their bounds. This is asked
        before the parser makes objects of them."""
        most = self.settings.max_header_bytes
        window = self._tail + data[:most]
        end = _END.search(window)
        n_bytes = len(data) if end is None else end.end() - len(self._tail)
        self._n_lines += data.count(b"\n", 0, n_bytes)
        self._tail = window[-len(b"\n\r"):]
        return self._n_unread + n_bytes > most or self._n_lines > _MOST_LINES

    def _expect_headers(self) -> None:
        seconds = self.settings.header_seconds
        self._reading.start(self.loop, min(seconds, _REST_S) if self._is_ending else seconds,
                            self._is_late)

    def _is_late(self) -> None:
        if not self._is_between() or self.transport.is_closing():
            return
        if self._n_unread and not self._has_rest():
            self._refuse(b"408 Request Timeout")
        else:
            self.transport.close()  # nothing was asked, or the answer was sent

    def _closed_another(self) -> bool:
        """Close a connection that is kept open for later requests; whether there was one."""
        for other in self.connections:
            if (isinstance(other, Bounded) and other is not self and other.cycle is not None
                    and other._is_between() and not other._n_unread
                    and not other.transport.is_closing()):
                other.transport.close()
                return True
        return False

    def _refuse(self, status: bytes, more: bytes = b"") -> None:
        self._reading.stop()
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n" + more
                             + b"connection: close\r\n\r\n")
        self.transport.close()


def protocol(settings: Settings) -> type[asyncio.Protocol]:
    """The class of connections: uvicorn's fastest that is installed, with the bounds of
    ``settings``."""
    base: Any = H11Protocol
    if find_spec("httptools") is not None:
        base = import_module("uvicorn.protocols.http.httptools_impl").HttpToolsProtocol
    return type("Connection", (Bounded, base), {"settings": settings})
