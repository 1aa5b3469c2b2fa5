"""Stands before every route: who asks, from where, and how much; and what came of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unladen.server.audit import Audit
from unladen.server.core import Caller
from unladen.server.faults import Fault
from unladen.server.keys import Key, find
from unladen.server.limits import KeyLimits
from unladen.server.metrics import Metrics
from unladen.server.pages import Hosts, Origins
from unladen.server.state import State
from unladen.server.visit import IN_SCOPE, Visit

requests_log = logging.getLogger("unladen.server.requests")

LEFT: Final = 499
"""The status of a request whose client left before an answer; nobody reads it, the audit does."""
NOBODY: Final = Caller(scopes=frozenset())
"""Asks without a key where one is needed: only routes that are open answer."""
ANYBODY: Final = Caller()
"""Asks where no key is needed."""
VERSIONS: Final = frozenset({"1.0", "1.1"})
"""The versions of HTTP that the server speaks; the parser takes any number."""
LINE_BYTES: Final = 4
"""Bytes of a header's line beside its name and its value: a colon, a space, the line's end."""


class Guard:
    """The application ``app`` behind its checks.

    * ``state``: of the application. ``metrics``, ``audit``: where requests are counted.
    * ``refuse``: the answer to a request for a path that is refused for a fault, in the shape of
      the path's dialect.
    * ``open_routes``: methods and paths that answer without a key.
    """

    def __init__(self, app: ASGIApp, *, state: State, metrics: Metrics, audit: Audit | None,
                 refuse: Callable[[Visit, Fault], Response],
                 open_routes: Iterable[tuple[str, str]]) -> None:
        settings = state.settings
        self._app, self._state, self._metrics, self._audit = app, state, metrics, audit
        self._refuse = refuse
        self._open = [(method, compile_path(path)[0]) for method, path in open_routes]
        self._hosts = Hosts(None if settings.socket else settings.host, settings.hosts)
        self._origins = Origins(settings.origins)
        self._limits = KeyLimits()
        self._level = logging.INFO if settings.log_requests else logging.DEBUG

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        visit = Visit(closing=self._state.closing, method=scope["method"], path=scope["path"],
                      client=client[0] if client else "")
        scope[IN_SCOPE] = visit
        headers = Headers(scope=scope)
        more = self._origins.answer_headers(headers.get("origin"))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                MutableHeaders(scope=message).update(more)
            await send(message)

        try:
            with contextlib.ExitStack() as held:
                app = self._admitted(scope, visit, headers, held)
                await app(scope, receive, answer)
        finally:
            self._leave(visit)

    def _admitted(self, scope: Scope, visit: Visit, headers: Headers,
                  held: contextlib.ExitStack) -> ASGIApp:
        """What answers the request."""
        try:
            check_message(scope, self._state.settings.max_header_bytes)
        except Fault as fault:
            response = self._refuse(visit, fault)
            response.headers["Connection"] = "close"  # nobody knows where the next request begins
            return response
        try:
            self._hosts.check(headers)
            if visit.method == "OPTIONS" and "access-control-request-method" in headers:
                return Response(None, 204, self._origins.preflight_headers(headers))
            self._origins.check(visit.method, headers)
            key = self._key(visit, headers)
            if key is not None:
                visit.caller = Caller(key.name, key.scopes, key.priority)
                held.enter_context(self._limits.request(key))
            if self._state.closing.is_set():
                raise Fault("closing", "the server shuts down", retry_after=1,
                            hint="try again when it is back")
        except Fault as fault:
            return self._refuse(visit, fault)
        return self._app

    def _key(self, visit: Visit, headers: Headers) -> Key | None:
        keys = self._state.keys.accepted()
        if not keys:
            visit.caller = ANYBODY
            return None
        visit.caller = NOBODY
        given = _credentials(headers)
        found = [key for each in given if (key := find(keys, each)) is not None]
        if found:
            return found[0]
        if given or not self._is_open(visit.method, visit.path):
            said = "this key isn't known" if given else "this server needs a key"
            raise Fault("no_key", said, hint='send the header "Authorization: Bearer KEY"')
        return None

    def _is_open(self, method: str, path: str) -> bool:
        return any(each == method and pattern.match(path) for each, pattern in self._open)

    def _leave(self, visit: Visit) -> None:
        if visit.status == 0:
            visit.status = LEFT
        self._metrics.left(visit)
        if self._audit is not None:
            self._audit.write(visit.line())
        if requests_log.isEnabledFor(self._level):
            requests_log.log(self._level, "%s", told(visit))


def check_message(scope: Scope, max_header_bytes: int) -> None:
    """Raise a ``Fault`` for a request that a proxy before the server may have read otherwise, and
    for one whose headers are too large: the parser takes any that come in one piece."""
    if scope["http_version"] not in VERSIONS:
        raise Fault("unsupported", f"this server doesn't speak HTTP/{scope['http_version']}",
                    hint="send HTTP/1.1")
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Fault("bad_request", "the request has both Content-Length and Transfer-Encoding",
                    hint="send one of them")
    n_bytes = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"]) + sum(
        len(name) + len(value) + LINE_BYTES for name, value in scope["headers"])
    if n_bytes > max_header_bytes:
        raise Fault("too_large", f"the headers have {n_bytes} bytes, and {max_header_bytes} are "
                    "allowed", hint="the operator can raise max_header_bytes")


def told(visit: Visit) -> str:
    """A request in a line of the log: how fast each part was, and where time went."""
    words = [f"{visit.method} {visit.route or 'no route'} {visit.status}"]
    if visit.caller.name:
        words.append(f"key {visit.caller.name}")
    if visit.model:
        words.append(visit.model)
    if visit.fault:
        words.append(visit.fault)
    if visit.load_s >= SHOWN_S:
        words.append(f"loaded in {visit.load_s:.2f} s")
    if visit.wait_s >= SHOWN_S:
        words.append(f"waited {visit.wait_s:.2f} s")
    if visit.n_prompt:
        computed = visit.n_prompt - visit.n_cached
        speed = f" at {computed / visit.prompt_s:.0f}/s" if visit.prompt_s > 0 and computed else ""
        words.append(f"{visit.n_prompt} tokens of prompt, {visit.n_cached} cached, "
                     f"{computed} computed{speed}")
    if visit.first_s is not None:
        words.append(f"first token after {visit.first_s:.3f} s")
    if visit.n_truncated:
        words.append(f"{visit.n_truncated} tokens of the conversation left out")
    words += visit.notes
    if visit.n_completion:
        speed = (f" at {visit.n_completion / visit.completion_s:.1f}/s"
                 if visit.completion_s > 0 else "")
        words.append(f"{visit.n_completion} written{speed}")
    words.append(f"{visit.seconds:.3f} s in all")
    return ", ".join(words)


SHOWN_S: Final = 0.01
"""Seconds of loading or waiting that a line of the log shows."""


def _credentials(headers: Headers) -> list[bytes]:
    """The keys that a request shows: clients use one header or the other, some both."""
    given = []
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if key.strip():
        given.append(key.strip() if scheme.lower() == "bearer" else f"{scheme} {key}")
    elif scheme:
        given.append(scheme)
    if headers.get("x-api-key"):
        given.append(headers["x-api-key"])
    return [each.encode("latin-1") for each in given]
