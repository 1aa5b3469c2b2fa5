"""The routes: answer, get, delete, list what was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.dialects.openai import shapes
from unladen.server.dialects.openai.responses.asked import asked, messages_of
from unladen.server.dialects.openai.responses.bodies import ResponsesBody
from unladen.server.dialects.openai.responses.items import Items, new_id
from unladen.server.dialects.openai.responses.store import Kept, Store
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Event
from unladen.server.faults import Fault
from unladen.server.streaming import Streamed, begun, whole

SEALED = "reasoning.encrypted_content"
"""What clients include that store nothing here and send reasoning back."""
LIMITS = {"length": "max_output_tokens", "context": "max_output_tokens",
          "deadline": "max_output_tokens"}
"""OpenAI's words for why a response is incomplete."""


class Answering:
    """A response under way, from its request to what is kept of it."""

    def __init__(self, exchange: Exchange, body: ResponsesBody, model: str) -> None:
        self.body, self.model = body, model
        self._owner, self._store = exchange.caller.name, store_of(exchange)
        before = body.previous_response_id
        history = [] if before is None else self._store.of(
            before, self._owner, "previous_response_id").messages
        self.asked = asked(body, history)
        self.items = Items(seals=SEALED in (body.include or ()))
        self.id, self._created, self._n_told = new_id("resp"), shapes.now(), 0

    def event(self, kind: str, fields: dict[str, Any]) -> bytes:
        """An event with its number."""
        value = {"type": kind, "sequence_number": self._n_told, **fields}
        self._n_told += 1
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return f"event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")

    def state(self, kind: str) -> bytes:
        """An event with the response as it is."""
        return self.event(f"response.{kind}", {"response": self.shown(kind)})

    def failed(self, fault: Fault) -> bytes:
        """The event that ends a stream that failed."""
        response = self.shown("failed")
        response["error"] = {"code": "server_error", "message": str(fault)}
        return self.event("response.failed", {"response": response})

    def finished(self) -> str:
        """The status at the end; the response is kept if the client wants that."""
        end = self.items.end
        status = "incomplete" if end is not None and end.reason in LIMITS else "completed"
        if self.body.store is not False:
            given = self.body.input
            inputs = ([{"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": given}]}] if isinstance(given, str) else given)
            self._store.keep(Kept(
                self._owner, self.shown(status),
                [*self.asked.messages[1 if self.body.instructions else 0:],
                 *messages_of(self.items.output)],
                [{"id": new_id("msg"), **item} for item in inputs]))
        return status

    def shown(self, status: str) -> dict[str, Any]:
        """The response as JSON."""
        body, end = self.body, self.items.end
        reason = LIMITS.get(end.reason) if end is not None else None
        effort = body.reasoning.effort if body.reasoning is not None else None
        form = body.text.format if body.text is not None else None
        return shapes.noted({
            "id": self.id, "object": "response", "created_at": self._created,
            "status": {"created": "in_progress"}.get(status, status), "background": False,
            "error": None, "incomplete_details": {"reason": reason} if reason else None,
            "instructions": body.instructions, "max_output_tokens": body.max_output_tokens,
            "model": self.model, "output": self.items.output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": effort, "summary": None}, "store": body.store is not False,
            "temperature": body.temperature, "text": {"format": form or {"type": "text"}},
            "tool_choice": body.tool_choice or "auto", "tools": body.tools or [],
            "top_logprobs": body.top_logprobs or 0, "top_p": body.top_p,
            "truncation": body.truncation or "disabled", "metadata": body.metadata or {},
            "user": body.user, "service_tier": "default", "usage": self._usage()},
            self.items.notes)

    def _usage(self) -> dict[str, Any] | None:
        end = self.items.end
        if end is None:
            return None
        return {"input_tokens": end.n_prompt,
                "input_tokens_details": {"cached_tokens": end.n_cached, "cache_write_tokens": 0},
                "output_tokens": end.n_completion,
                "output_tokens_details": {"reasoning_tokens": end.n_reasoning},
                "total_tokens": end.n_prompt + end.n_completion}


def store_of(exchange: Exchange) -> Store:
    """The responses that are kept."""
    return exchange.state.kept("openai responses", Store)


async def answer(exchange: Exchange) -> Response:
    """Answer, whole or as a stream."""
    body: ResponsesBody = exchange.body
    name = body.model or (await exchange.core.card("")).name
    answering = Answering(exchange, body, name)
    context = exchange.core.answer(body.model, answering.asked, exchange.wish())
    if not body.stream:
        return JSONResponse(await whole(exchange.request, _whole(context, answering)))
    events, held = await begun(exchange.request, context)
    return Streamed(_stream(events, answering), held, failed=answering.failed,
                    heartbeat=lambda: answering.state("in_progress"),
                    interval=exchange.state.settings.heartbeat_s)


async def _whole(context: AbstractAsyncContextManager[AsyncIterator[Event]],
                 answering: Answering) -> dict[str, Any]:
    async with context as events:
        async for event in events:
            for _ in answering.items.take(event):
                pass  # a whole answer tells of no steps
    return answering.shown(answering.finished())


async def _stream(events: AsyncIterator[Event], answering: Answering
                  ) -> AsyncGenerator[bytes, None]:
    yield answering.state("created")
    yield answering.state("in_progress")
    async for event in events:
        for kind, fields in answering.items.take(event):
            yield answering.event(kind, fields)
    yield answering.state(answering.finished())


async def get(exchange: Exchange) -> Response:
    """A response that is kept."""
    return JSONResponse(_kept(exchange).response)


async def delete(exchange: Exchange) -> Response:
    """Forget a response."""
    response_id = exchange.request.path_params["id"]
    store_of(exchange).forget(response_id, exchange.caller.name)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


async def inputs(exchange: Exchange) -> Response:
    """The items that a response was asked with."""
    found = _kept(exchange).inputs
    return JSONResponse({"object": "list", "data": found, "has_more": False,
                         "first_id": found[0]["id"] if found else None,
                         "last_id": found[-1]["id"] if found else None})


def _kept(exchange: Exchange) -> Kept:
    return store_of(exchange).of(exchange.request.path_params["id"], exchange.caller.name)


ENDPOINTS = [
    Endpoint("POST", "/v1/responses", answer, "answer, as items", body=ResponsesBody),
    Endpoint("GET", "/v1/responses/{id}", get, "a response that is kept"),
    Endpoint("DELETE", "/v1/responses/{id}", delete, "forget a response"),
    Endpoint("GET", "/v1/responses/{id}/input_items", inputs, "what a response was asked with"),
]
