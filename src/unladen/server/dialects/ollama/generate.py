"""``/api/generate``: an answer to one prompt, a raw continuation, or what fills a gap."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from unladen.server.asked import Chat, Text
from unladen.server.dialects.ollama import shapes
from unladen.server.dialects.ollama.bodies import GenerateBody
from unladen.server.dialects.ollama.chat import loaded
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.remembered import Remembered

MAX_CONTEXTS = 1000
"""Conversations that are remembered for ``context``; the oldest are forgotten."""
MAX_BYTES = 2**28
"""Bytes of memory that they take at most."""
CONTEXT_NUMBERS = 4
"""Numbers in a ``context``: enough bits that nobody guesses one."""


class Contexts:
    """What was said, by the ``context`` that a client got and sends back. It is no list of tokens
    here, because a template writes the turns anew."""

    def __init__(self) -> None:
        self._known: Remembered[tuple[int, ...]] = Remembered(MAX_CONTEXTS, MAX_BYTES)

    def said(self, context: Sequence[int] | None) -> list[dict[str, Any]]:
        """The messages so far. Raises a ``Fault`` for a context that is forgotten."""
        if not context:
            return []
        key = tuple(context)
        if key not in self._known:
            raise Fault("bad_request", "this context isn't known any more", param="context",
                        hint="send the conversation to /api/chat")
        found: list[dict[str, Any]] = self._known.get(key)
        return found

    def keep(self, messages: list[dict[str, Any]]) -> list[int]:
        """A context for ``messages``."""
        context = tuple(secrets.randbelow(2**31) for _ in range(CONTEXT_NUMBERS))
        self._known.add(context, messages)
        return [*context]


async def handle(exchange: Exchange) -> Response:
    """Answer a prompt. Without one the model is loaded, or with ``keep_alive`` 0 unloaded."""
    body: GenerateBody = exchange.body
    name = await shapes.known_name(exchange, body.model)
    if body.images:
        raise Fault("unsupported", "the model takes no images", param="images")
    parameters, options = shapes.parameters_of(body.options or {}, body.format, body.think)
    wish = exchange.wish(keep_alive=shapes.seconds_of(body.keep_alive), options=options)
    if not body.prompt and not body.suffix:
        return await loaded(exchange, name, wish, {"response": ""})
    contexts = exchange.state.kept("ollama contexts", Contexts)
    messages: list[dict[str, Any]] = []
    if body.raw or body.suffix is not None:
        parameters.pop("reasoning", None)
        asked: Chat | Text = Text(prompt=body.prompt, suffix=body.suffix, parameters=parameters)
    else:
        messages = contexts.said(body.context)
        if body.system:
            messages = [{"role": "system", "content": body.system},
                        *(m for m in messages if m["role"] != "system")]
        messages.append({"role": "user", "content": body.prompt})
        if body.template:
            parameters["template"] = body.template
        asked = Chat(messages=messages, parameters=parameters)

    def last(answer: shapes.Answer, with_text: bool) -> dict[str, Any]:
        thinking = {"thinking": answer.thinking} if answer.thinking and with_text else {}
        kept = {"context": contexts.keep([*messages, {
            "role": "assistant", "content": answer.text}])} if messages else {}
        return {"response": answer.text if with_text else "", **thinking, **kept}

    return await shapes.respond(exchange, name, asked, wish, shapes.Shape(_part, last),
                                streams=body.stream is not False)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    thinking = {"thinking": part["thinking"]} if "thinking" in part else {}
    return {"response": part["content"], **thinking}


ENDPOINTS = [Endpoint("POST", "/api/generate", handle, "answer a prompt", body=GenerateBody)]
