"""``/api/embed`` and the older ``/api/embeddings``."""

from __future__ import annotations

import time

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Embed
from unladen.server.dialects.ollama import shapes
from unladen.server.dialects.ollama.bodies import EmbedBody, OldEmbedBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Vectors
from unladen.server.streaming import whole


async def several(exchange: Exchange) -> Response:
    """The vectors of all inputs."""
    body: EmbedBody = exchange.body
    start = time.perf_counter()
    texts = [body.input] if isinstance(body.input, str) else body.input
    found = await _vectors(exchange, Embed(inputs=[*texts], dimensions=body.dimensions))
    return JSONResponse({
        "model": body.model, "embeddings": found.numbers(),
        "total_duration": shapes.nanoseconds(time.perf_counter() - start), "load_duration": 0,
        "prompt_eval_count": sum(found.n_tokens)})


async def one(exchange: Exchange) -> Response:
    """The vector of one text."""
    body: OldEmbedBody = exchange.body
    found = await _vectors(exchange, Embed(inputs=[body.prompt]))
    return JSONResponse({"embedding": found.numbers()[0]})


async def _vectors(exchange: Exchange, asked: Embed) -> Vectors:
    name = await shapes.known_name(exchange, exchange.body.model)
    wish = exchange.wish(keep_alive=shapes.seconds_of(exchange.body.keep_alive))
    if not asked.inputs:
        return Vectors([], [])
    found = await whole(exchange.request, exchange.core.result(name, asked, wish))
    assert isinstance(found, Vectors)
    return found


ENDPOINTS = [Endpoint("POST", "/api/embed", several, "vectors of texts", body=EmbedBody),
             Endpoint("POST", "/api/embeddings", one, "the vector of a text", body=OldEmbedBody)]
