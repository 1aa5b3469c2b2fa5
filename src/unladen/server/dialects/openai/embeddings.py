"""``/v1/embeddings``: vectors of texts, as numbers or as base64."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Embed
from unladen.server.dialects.openai.bodies import EmbeddingBody
from unladen.server.dialects.openai.completions import prompts_of
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Vectors
from unladen.server.streaming import whole


async def handle(exchange: Exchange) -> Response:
    """The vectors of all inputs."""
    body: EmbeddingBody = exchange.body
    question = Embed(inputs=[*prompts_of(body.input, "input")], dimensions=body.dimensions)
    found = await whole(exchange.request,
                        exchange.core.result(body.model, question, exchange.wish()))
    assert isinstance(found, Vectors)
    rows = found.rows if body.encoding_format == "base64" else found.numbers()
    n_tokens = sum(found.n_tokens)
    return JSONResponse({
        "object": "list", "model": body.model or (await exchange.core.card("")).name,
        "data": [{"object": "embedding", "index": i, "embedding": row}
                 for i, row in enumerate(rows)],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens}})


ENDPOINTS = [Endpoint("POST", "/v1/embeddings", handle, "vectors of texts", body=EmbeddingBody)]
