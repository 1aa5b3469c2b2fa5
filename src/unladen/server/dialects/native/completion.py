"""``/completion`` and ``/infill``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Text
from unladen.server.dialects.native import shapes
from unladen.server.dialects.native.bodies import CompletionBody, InfillBody, Sampled
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Begun, Ended, Event, Piece, Probabilities
from unladen.server.streaming import Streamed, begun, whole

STOPS = {"end": "eos", "stop": "word", "length": "limit", "context": "limit",
         "deadline": "limit", "tool_calls": "eos", "cancelled": "none"}
"""llama-server's words for why an answer ended."""
PING = b": ping\n\n"
"""A comment that keeps a connection alive."""


async def complete(exchange: Exchange) -> Response:
    """Continue a prompt."""
    body: CompletionBody = exchange.body
    return await _answer(exchange, Text(prompt=body.prompt, parameters=body.parameters()))


async def infill(exchange: Exchange) -> Response:
    """Write what fills a gap. Texts of other files stand before the prefix."""
    body: InfillBody = exchange.body
    extra = "".join(str(each.get("text", "")) + "\n" for each in body.input_extra or ())
    return await _answer(exchange, Text(
        prompt=extra + body.input_prefix + body.prompt, suffix=body.input_suffix,
        parameters=body.parameters()))


async def _answer(exchange: Exchange, asked: Text) -> Response:
    body: Sampled = exchange.body
    deadline = None if not body.t_max_predict_ms else body.t_max_predict_ms / 1e3
    context = exchange.core.answer(body.model, asked, exchange.wish(deadline=deadline))
    name = body.model or (await exchange.core.card("")).name
    if not body.stream:
        return JSONResponse(await whole(exchange.request, _whole(context, name, asked)))
    events, held = await begun(exchange.request, context)
    return Streamed(_stream(events, name), held, heartbeat=lambda: PING,
                    failed=lambda fault: shapes.data(shapes.content(fault)),
                    interval=exchange.state.settings.heartbeat_s)


async def _whole(context: AbstractAsyncContextManager[AsyncIterator[Event]], name: str,
                 asked: Text) -> Mapping[str, Any]:
    text, tokens, last = "", [], {}
    start = Begun(0)
    async with context as events:
        async for event in events:
            if isinstance(event, Begun):
                start = event
            elif isinstance(event, Piece):
                text += event.text
            elif isinstance(event, Probabilities):
                tokens += _probabilities(event)
            elif isinstance(event, Ended):
                last = _ended(event, name, start)
    shown = {"prompt": asked.prompt, **last, "content": text}
    return {**shown, "completion_probabilities": tokens} if tokens else shown


async def _stream(events: AsyncIterator[Event], name: str) -> AsyncGenerator[bytes, None]:
    tokens: list[dict[str, Any]] = []
    start = Begun(0)
    async for event in events:
        if isinstance(event, Begun):
            start = event
        elif isinstance(event, Probabilities):
            tokens += _probabilities(event)
        elif isinstance(event, Piece):
            more = {"completion_probabilities": tokens} if tokens else {}
            yield shapes.data({"index": 0, "content": event.text, "stop": False, **more})
            tokens = []
        elif isinstance(event, Ended):
            yield shapes.data({**_ended(event, name, start), "content": ""})


def _ended(end: Ended, name: str, start: Begun) -> dict[str, Any]:
    told = {"notes": start.told()} if start.told() else {}
    return {**told, "index": 0, "id_slot": 0, "stop": True, "model": name,
            "stop_type": STOPS[end.reason], "stopping_word": end.stop,
            "tokens_predicted": end.n_completion, "tokens_evaluated": end.n_prompt,
            "tokens_cached": end.n_cached, "truncated": start.n_truncated > 0,
            "timings": shapes.timings(end)}


def _probabilities(event: Probabilities) -> list[dict[str, Any]]:
    return [{**_token(token, text, logprob or 0.0),
             "top_logprobs": [_token(*other) for other in top]}
            for token, text, logprob, top in event.tokens]


def _token(token: int, latin: str, logprob: float) -> dict[str, Any]:
    raw = latin.encode("latin-1")
    return {"id": token, "token": raw.decode("utf-8", "replace"), "bytes": [*raw],
            "logprob": logprob}


ENDPOINTS = [
    *(Endpoint("POST", path, complete, "continue a prompt", body=CompletionBody)
      for path in ("/completion", "/completions")),
    Endpoint("POST", "/infill", infill, "write what fills a gap", body=InfillBody),
]
