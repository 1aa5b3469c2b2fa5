"""``/api/copy``, ``/api/create``, ``/api/delete`` and ``/api/pull``: what the stores have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from unladen.hub.modelfile.writing import written
from unladen.server.dialects.ollama import shapes
from unladen.server.dialects.ollama.bodies import CopyBody, CreateBody, Named, PullBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.streaming import NDJSON, Streamed, whole

PROGRESS_S: Final = 1.0
"""Seconds between two lines on a download."""


async def copy(exchange: Exchange) -> Response:
    """Give a model another name."""
    body: CopyBody = exchange.body
    _check(exchange, body.destination, "destination")
    source = body.source.removesuffix(shapes.LATEST) or body.source
    await whole(exchange.request, exchange.core.change("copy", {
        "source": source, "name": body.destination}))
    return Response()


async def create(exchange: Exchange) -> Response:
    """Make a model of another one."""
    body: CreateBody = exchange.body
    _check(exchange, body.model, "model")
    for field in ("files", "adapters", "quantize"):
        if getattr(body, field):
            raise Fault("unsupported", f"{field} can't be given to the server", param=field,
                        hint="the command unladen create takes files")
    text = body.modelfile or _modelfile(body)
    return await _answer(exchange, "create", {"name": body.model, "modelfile": text},
                   streams=body.stream is not False)


async def delete(exchange: Exchange) -> Response:
    """Remove a model from a store of unladen's."""
    name = exchange.body.model
    _check(exchange, name, "model")
    await whole(exchange.request, exchange.core.change("remove", {"name": name}))
    return Response()


async def pull(exchange: Exchange) -> Response:
    """Download a model. One that the server offers is there already."""
    body: PullBody = exchange.body
    try:
        await shapes.known_name(exchange, body.model)
        is_known = True
    except Fault as fault:
        if fault.kind != "unknown_model":
            raise
        is_known = False
    if not is_known and not exchange.state.settings.allow_any:
        raise Fault("unknown_model", f"model '{body.model}' isn't here, and this server downloads "
                    "nothing", hint="unladen pull downloads it; allow_any = true lets clients do "
                    "that")
    return await _answer(exchange, "" if is_known else "pull", {"name": body.model},
                   streams=body.stream is not False)


def _check(exchange: Exchange, name: str, param: str) -> None:
    """Raise a ``Fault`` where clients may not change what there is, or no name is given."""
    if not exchange.state.settings.allow_any:
        raise Fault("forbidden", "clients may not change the models of this server",
                    hint="the operator can let them: allow_any = true in the file of settings")
    if not name:
        raise Fault("bad_request", f"{param} is required", param=param)


def _modelfile(body: CreateBody) -> str:
    """The fields of ``body`` as a Modelfile."""
    if not body.source:
        raise Fault("bad_request", "from is required", param="from")
    for i, message in enumerate(body.messages or ()):
        if not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise Fault("bad_request", "a message needs a role and a content, which are texts",
                        param=f"messages.{i}")
    licenses = [body.license] if isinstance(body.license, str) else body.license or ()
    return written([body.source], template=body.template, system=body.system,
                   parameters=body.parameters, messages=body.messages or (), licenses=licenses)


async def _answer(exchange: Exchange, what: str, given: Mapping[str, Any], *, streams: bool
                  ) -> Response:
    """Do ``what``, "" for nothing, and tell in lines how far it is."""
    seen: dict[str, Any] = {"status": f"{what} {given['name']}".strip()}

    def told(n: float, total: float) -> None:
        seen.update(completed=int(n), total=int(total))

    async def done() -> dict[str, Any]:
        if what:
            await exchange.core.change(what, given, told)
        return {"status": "success"}

    async def lines() -> AsyncGenerator[bytes, None]:
        yield shapes.line({"status": "pulling manifest" if what in ("", "pull") else
                           "reading model metadata"})
        yield shapes.line(await done())

    if not streams:
        return JSONResponse(await whole(exchange.request, done()))
    return Streamed(lines(), AsyncExitStack(), media_type=NDJSON,
                    failed=lambda fault: shapes.line({"error": str(fault)}),
                    heartbeat=lambda: shapes.line(seen), interval=PROGRESS_S)


ENDPOINTS = [
    Endpoint("POST", "/api/copy", copy, "give a model another name", body=CopyBody,
             scope="manage"),
    Endpoint("POST", "/api/create", create, "make a model of another one", body=CreateBody,
             scope="manage"),
    Endpoint("DELETE", "/api/delete", delete, "remove a model", body=Named, scope="manage"),
    Endpoint("POST", "/api/pull", pull, "download a model", body=PullBody, scope="manage"),
]
