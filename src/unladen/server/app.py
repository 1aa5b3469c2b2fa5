"""The ASGI application: the dialects' endpoints, and errors in each dialect's shape."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unladen.discover import search
from unladen.server import about
from unladen.server.audit import Audit
from unladen.server.bodies import read_json, validated
from unladen.server.core import Core
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.guard import LEFT, Guard
from unladen.server.metrics import Metrics
from unladen.server.observed import Observed
from unladen.server.settings import Settings
from unladen.server.state import State
from unladen.server.streaming import Gone
from unladen.server.ui import page
from unladen.server.ui.routes import dialect as page_api
from unladen.server.ui.service import UiService
from unladen.server.visit import IN_SCOPE, Visit

log = logging.getLogger("unladen.server")

RETRIED = frozenset({"full", "closing"})
"""Kinds of faults after which a client may try the same again."""


@functools.cache
def dialects() -> Sequence[Dialect]:
    """Every dialect."""
    found = search("unladen.server.dialects", "server_dialects",
                   lambda module: [(module.DIALECT.name, module.DIALECT)])
    return tuple(found.entries.values())


def make_app(core: Core, settings: Settings, spoken: Sequence[Dialect] | None = None, *,
             audit: Audit | None = None, state: State | None = None, ui: UiService | None = None,
             page_folder: Path = page.PAGE_FOLDER) -> Starlette:
    """The application over ``core``.

    * ``spoken``: its dialects; None: all.
    * ``audit``: gets a line for each request; None: no audit.
    * ``state``: set its ``closing`` to end running requests; None: one of its own.
    * ``ui``: what the page's routes need beside the models; None: one that nobody began, which
      tells of no changes by itself.
    * ``page_folder``: has the page's built files.
    """
    state = State(settings) if state is None else state
    metrics = Metrics(core)
    ui = UiService(core, settings) if ui is None else ui
    spoken = [*(dialects() if spoken is None else spoken), page_api(ui), page.dialect(page_folder)]
    spoken.append(about.dialect(tuple(spoken), metrics, has_keys=settings.needs_key))
    routes = [Route(each.path, _handler(each, dialect, core, state, metrics),
                    methods=[each.method])
              for dialect in spoken for each in dialect.endpoints]
    owners = [dialect for dialect in spoken for _ in dialect.endpoints]

    def refuse(visit: Visit, fault: Fault) -> Response:
        found = [(visit.method not in (route.methods or ()), i)
                 for i, route in enumerate(routes) if route.path_regex.match(visit.path)]
        dialect = owners[min(found)[1]] if found else _dialect_of(visit.path, spoken)
        visit.dialect, visit.fault = dialect.name, fault.kind
        return _marked(refusal(dialect, fault), dialect, visit)

    async def failed(request: Request, error: Exception) -> Response:
        return refuse(request.scope[IN_SCOPE], _fault_of(error))

    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, state=state, metrics=metrics, audit=audit, refuse=refuse,
                               open_routes=_open_routes(spoken))],
        exception_handlers={HTTPException: failed, Fault: failed, Exception: failed})


def _handler(endpoint: Endpoint, dialect: Dialect, core: Core, state: State, metrics: Metrics
             ) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        visit: Visit = request.scope[IN_SCOPE]
        visit.dialect, visit.route = dialect.name, endpoint.path
        try:
            _check_scope(endpoint, visit)
            body = (None if endpoint.body is None else
                    validated(endpoint.body, await read_json(request, state)))
            response = await endpoint.handler(Exchange(
                request, visit.id, Observed(core, visit, metrics, state.settings), visit.caller,
                body, state))
        except Fault as fault:
            visit.fault = fault.kind
            response = refusal(dialect, fault)
        except Gone:
            response = Response(status_code=LEFT)
        except Exception as error:
            log.error("%s %s failed", endpoint.method, endpoint.path, exc_info=error)
            visit.fault = "internal"
            response = refusal(dialect, Fault("internal", "the server failed",
                                              hint="the server's log says why"))
        return _marked(response, dialect, visit)
    return handle


def _open_routes(spoken: Iterable[Dialect]) -> Iterator[tuple[str, str]]:
    """Methods and paths that answer without a key."""
    for dialect in spoken:
        for each in dialect.endpoints:
            if each.scope == "open":
                yield each.method, each.path
                if each.method == "GET":  # Starlette answers HEAD, too
                    yield "HEAD", each.path


def _check_scope(endpoint: Endpoint, visit: Visit) -> None:
    if endpoint.scope != "open" and endpoint.scope not in visit.caller.scopes:
        raise Fault("forbidden", f"the key {visit.caller.name} doesn't allow this: it needs the "
                                 f"scope {endpoint.scope}",
                    hint="the operator can add the scope in the key file")


def _marked(response: Response, dialect: Dialect, visit: Visit) -> Response:
    """``response`` with the request's id, in the header that ``dialect`` has for it."""
    response.headers[dialect.id_header] = visit.id
    return response


def refusal(dialect: Dialect, fault: Fault) -> Response:
    """``fault`` in the shape of ``dialect``."""
    status, content, headers = dialect.error(fault)
    more = {"Retry-After": str(max(1, fault.retry_after))} if fault.kind in RETRIED else {}
    if fault.kind == "no_key":
        more["WWW-Authenticate"] = "Bearer"
    if fault.allow:
        more["Allow"] = fault.allow
    return JSONResponse(content, status, {**more, **headers})


def _dialect_of(path: str, spoken: Iterable[Dialect]) -> Dialect:
    """The dialect whose clients ask for ``path``."""
    return max(spoken, key=lambda each: max(
        (len(prefix) for prefix in each.prefixes if path.startswith(prefix)), default=-1))


def _fault_of(error: Exception) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return Fault("wrong_method", f"this route takes {allowed or 'another method'}",
                     hint="/openapi.json lists the routes", allow=allowed)
    if isinstance(error, HTTPException) and error.status_code == 404:
        return Fault("not_found", "there is no such route",
                     hint="/openapi.json lists the routes")
    return Fault("internal", "the server failed", hint="the server's log says why")
