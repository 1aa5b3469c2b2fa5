"""``/rerank`` and ``/embedding``."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Embed, Rank
from unladen.server.dialects.native.bodies import EmbeddingBody, RankBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Scores, Vectors
from unladen.server.faults import Fault
from unladen.server.streaming import whole


async def rank(exchange: Exchange) -> Response:
    """How well documents answer a query, the best first."""
    body: RankBody = exchange.body
    documents = body.documents if body.documents is not None else body.texts
    if not documents:
        raise Fault("bad_request", "documents are required", param="documents")
    found = await whole(exchange.request, exchange.core.result(
        body.model, Rank(query=body.query, documents=documents), exchange.wish()))
    assert isinstance(found, Scores)
    order = sorted(range(len(documents)), key=lambda i: -found.scores[i])[:body.top_n]
    return JSONResponse({
        "model": body.model or (await exchange.core.card("")).name, "object": "list",
        "usage": {"prompt_tokens": found.n_tokens, "total_tokens": found.n_tokens},
        "results": [{"index": i, "relevance_score": found.scores[i]} for i in order]})


async def embed(exchange: Exchange) -> Response:
    """The vectors of texts."""
    body: EmbeddingBody = exchange.body
    given = body.content if body.content is not None else body.input
    if not given:
        raise Fault("bad_request", "content is required", param="content")
    found = await whole(exchange.request, exchange.core.result(
        body.model, Embed(inputs=[given] if isinstance(given, str) else [*given]),
        exchange.wish()))
    assert isinstance(found, Vectors)
    return JSONResponse([{"index": i, "embedding": [row]}
                         for i, row in enumerate(found.numbers())])


ENDPOINTS = [
    *(Endpoint("POST", path, rank, "rank documents", body=RankBody)
      for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")),
    *(Endpoint("POST", path, embed, "vectors of texts", body=EmbeddingBody)
      for path in ("/embedding", "/embeddings")),
]
