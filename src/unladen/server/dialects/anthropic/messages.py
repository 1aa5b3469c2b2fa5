"""``/v1/messages``: answers whole or as events, and ``count_tokens``."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Count
from unladen.server.dialects.anthropic import errors
from unladen.server.dialects.anthropic.asked import asked
from unladen.server.dialects.anthropic.bodies import CountBody, MessagesBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import (
    Begun,
    CallArguments,
    CallBegun,
    Ended,
    Event,
    Piece,
    Prompt,
    Reasoning,
)
from unladen.server.streaming import Streamed, begun, whole

REASONS = {"end": "end_turn", "stop": "stop_sequence", "length": "max_tokens",
           "context": "model_context_window_exceeded", "tool_calls": "tool_use",
           "deadline": "max_tokens", "cancelled": "end_turn"}
"""Anthropic's words for why an answer ended."""


async def handle(exchange: Exchange) -> Response:
    """Answer, whole or as a stream."""
    body: MessagesBody = exchange.body
    context = exchange.core.answer(body.model, asked(body), exchange.wish())
    if not body.stream:
        return JSONResponse(await whole(exchange.request, _whole(context, body.model)))
    events, held = await begun(exchange.request, context)
    return Streamed(_stream(events, body.model), held, failed=errors.failed,
                    heartbeat=lambda: errors.PING,
                    interval=exchange.state.settings.heartbeat_s)


async def count(exchange: Exchange) -> Response:
    """The tokens of the prompt that the messages make."""
    body: CountBody = exchange.body
    found = await whole(exchange.request, exchange.core.result(
        body.model, Count(chat=asked(body)), exchange.wish()))
    assert isinstance(found, Prompt)
    return JSONResponse({"input_tokens": found.n_tokens})


def _message(model: str, content: list[dict[str, Any]], usage: dict[str, Any],
             reason: str | None = None, stop: str | None = None, *, notes: Sequence[str] = ()
             ) -> dict[str, Any]:
    """A message. Clients ignore the field with ``notes``: what was left out or changed."""
    told = {"notes": [*notes]} if notes else {}
    return {"id": f"msg_{secrets.token_urlsafe(18)}", "type": "message", "role": "assistant",
            "model": model, "content": content, "stop_reason": reason, "stop_sequence": stop,
            "usage": usage, **told}


def _usage(n_prompt: int, n_cached: int, n_completion: int) -> dict[str, Any]:
    return {"input_tokens": n_prompt - n_cached, "cache_read_input_tokens": n_cached,
            "cache_creation_input_tokens": 0, "output_tokens": n_completion}


async def _whole(context: Any, model: str) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    end: Ended | None = None
    notes: list[str] = []
    async with context as events:
        async for event in events:
            if isinstance(event, Begun):
                notes = event.told()
            elif isinstance(event, Ended):
                end = event
            elif isinstance(event, CallArguments):
                blocks[-1]["input"] += event.text
            elif (block := _block(event)) is not None:
                if not blocks or blocks[-1]["type"] != block["type"] or "id" in block:
                    blocks.append({**block, "input": ""} if "id" in block else block)
                _grow(blocks[-1], event)
    assert end is not None
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = _object(block["input"])
    return _message(model, blocks, _usage(end.n_prompt, end.n_cached, end.n_completion),
                    REASONS[end.reason], end.stop or None, notes=notes)


def _object(text: str) -> Any:
    """The arguments of a call: an object, also where the model broke them off."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _block(event: Event) -> dict[str, Any] | None:
    """The block that ``event`` belongs to, still empty; None if it belongs to none."""
    if isinstance(event, Piece):
        return {"type": "text", "text": ""}
    if isinstance(event, Reasoning):
        return {"type": "thinking", "thinking": "", "signature": ""}
    if isinstance(event, CallBegun):
        return {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
    return None


def _grow(block: dict[str, Any], event: Event) -> None:
    if isinstance(event, Piece):
        block["text"] += event.text
    elif isinstance(event, Reasoning):
        block["thinking"] += event.text


def _delta(event: Event) -> dict[str, Any] | None:
    """The delta that ``event`` is; None if it has none."""
    if isinstance(event, Piece):
        return {"type": "text_delta", "text": event.text}
    if isinstance(event, Reasoning):
        return {"type": "thinking_delta", "thinking": event.text}
    if isinstance(event, CallArguments):
        return {"type": "input_json_delta", "partial_json": event.text}
    return None


async def _stream(events: AsyncIterator[Event], model: str) -> AsyncGenerator[bytes, None]:
    index, kind = -1, ""

    def closed() -> list[bytes]:
        if not kind:
            return []
        signed = [errors.event({"type": "content_block_delta", "index": index, "delta": {
            "type": "signature_delta", "signature": ""}})] if kind == "thinking" else []
        return [*signed, errors.event({"type": "content_block_stop", "index": index})]

    async for event in events:
        if isinstance(event, Begun):
            yield errors.event({"type": "message_start", "message": _message(
                model, [], _usage(event.n_prompt, 0, 0), notes=event.told())})
            yield errors.PING
        elif isinstance(event, Ended):
            for part in closed():
                yield part
            yield errors.event({
                "type": "message_delta", "delta": {
                    "stop_reason": REASONS[event.reason], "stop_sequence": event.stop or None},
                "usage": _usage(event.n_prompt, event.n_cached, event.n_completion)})
            yield errors.event({"type": "message_stop"})
        else:
            block = _block(event)
            if block is not None and (block["type"] != kind or "id" in block):
                for part in closed():
                    yield part
                index, kind = index + 1, block["type"]
                yield errors.event({"type": "content_block_start", "index": index,
                                    "content_block": block})
            if (delta := _delta(event)) is not None:
                yield errors.event({"type": "content_block_delta", "index": index, "delta": delta})


ENDPOINTS = [Endpoint("POST", "/v1/messages", handle, "answer a conversation", body=MessagesBody),
             Endpoint("POST", "/v1/messages/count_tokens", count, "count a prompt's tokens",
                      body=CountBody)]
