"""``/api/chat``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Chat
from unladen.server.dialects.ollama import shapes
from unladen.server.dialects.ollama.bodies import ChatBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.faults import Fault


async def handle(exchange: Exchange) -> Response:
    """Answer a conversation. Without messages the model is loaded, or with ``keep_alive`` 0
    unloaded."""
    body: ChatBody = exchange.body
    name = await shapes.known_name(exchange, body.model)
    keep_alive = shapes.seconds_of(body.keep_alive)
    parameters, options = shapes.parameters_of(body.options or {}, body.format, body.think)
    wish = exchange.wish(keep_alive=keep_alive, options=options)
    if not body.messages:
        return await loaded(exchange, name, wish, {"message": {"role": "assistant",
                                                               "content": ""}})
    tools = [tool for tool in body.tools or () if tool.get("type", "function") == "function"]
    asked = Chat(messages=[_message(message, i) for i, message in enumerate(body.messages)],
                 tools=tools, parameters=parameters)
    return await shapes.respond(exchange, name, asked, wish, SHAPE,
                                streams=body.stream is not False)


async def loaded(exchange: Exchange, name: str, wish: Any, more: Mapping[str, Any]) -> Response:
    """Load the model, or unload it where it is to be kept for no time."""
    unloads = wish.keep_alive == 0
    if unloads:
        await exchange.core.unload(name)
    else:
        await exchange.core.load(name, wish)
    return JSONResponse({"model": exchange.body.model, "created_at": shapes.now(), **more,
                         "done": True, "done_reason": "unload" if unloads else "load"})


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {"message": {"role": "assistant", **part}}


def _last(answer: shapes.Answer, with_text: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text if with_text else ""}
    if answer.thinking and with_text:
        message["thinking"] = answer.thinking
    if answer.calls and with_text:
        message["tool_calls"] = answer.calls
    return {"message": message}


SHAPE = shapes.Shape(_part, _last)
"""The lines of a chat."""


def _message(given: Mapping[str, Any], i: int) -> dict[str, Any]:
    """A message in OpenAI's form."""
    message = dict(given)
    if message.pop("images", None):
        raise Fault("unsupported", "the model takes no images", param=f"messages.{i}.images")
    if isinstance(message.get("thinking"), str):
        message["reasoning_content"] = message.pop("thinking")
    if (tool := message.pop("tool_name", None)) is not None:
        message["name"] = tool
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [{"id": f"call_{i}_{j}", "type": "function", **call}
                                 if isinstance(call, dict) else call
                                 for j, call in enumerate(calls)]
    return message


ENDPOINTS = [Endpoint("POST", "/api/chat", handle, "answer a conversation", body=ChatBody)]
