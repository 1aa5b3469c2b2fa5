"""Routes about the server itself: whether it lives, its metrics, the description of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.description import describe
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.metrics import Metrics

NAME = "server"
"""The name of these routes' dialect."""


def dialect(spoken: Sequence[Dialect], metrics: Metrics, *, has_keys: bool) -> Dialect:
    """The routes as a dialect. ``spoken``: the others, which are described. ``has_keys``: whether a
    key is needed."""
    described: list[bytes] = []

    async def health(exchange: Exchange) -> Response:
        """Whether the server answers; it tells nothing else, as it needs no key."""
        if exchange.state.closing.is_set():
            return JSONResponse({"status": "closing"}, 503)
        return JSONResponse({"status": "ok"})

    async def numbers(exchange: Exchange) -> Response:
        """The metrics."""
        page, media = metrics.page(exchange.request.headers.get("accept", ""))
        return Response(page, media_type=media)

    async def description(exchange: Exchange) -> Response:
        """The API, written at the first look."""
        if not described:
            described.append(bytes(JSONResponse(describe([*spoken, own], has_keys=has_keys)).body))
        return Response(described[0], media_type="application/json")

    own = Dialect(NAME, [
        Endpoint("GET", "/health", health, "whether the server answers", scope="open"),
        Endpoint("GET", "/metrics", numbers, "metrics for Prometheus", media=("text/plain",)),
        Endpoint("GET", "/openapi.json", description, "the description of the API")],
        ("/health", "/metrics", "/openapi.json", "/"), error)
    return own


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """A fault where no other dialect is meant."""
    return fault.status, {"error": {"message": str(fault), "type": fault.kind}}, {}
