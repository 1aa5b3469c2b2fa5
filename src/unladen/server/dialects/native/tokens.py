"""``/tokenize``, ``/detokenize``, ``/apply-template``."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.asked import Chat, Count, Detokenize, Tokenize
from unladen.server.dialects.native.bodies import DetokenizeBody, TemplateBody, TokenizeBody
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.events import Prompt, Tokens
from unladen.server.streaming import whole


async def tokenize(exchange: Exchange) -> Response:
    """The tokens of a text, with ``with_pieces`` also what each of them writes."""
    body: TokenizeBody = exchange.body
    found = await whole(exchange.request, exchange.core.result(body.model, Tokenize(
        text=body.content, begins=bool(body.add_special),
        special=body.parse_special is not False), exchange.wish()))
    assert isinstance(found, Tokens)
    if not body.with_pieces:
        return JSONResponse({"tokens": found.ids})
    return JSONResponse({"tokens": [{"id": token, "piece": _piece(piece)} for token, piece in
                                    zip(found.ids, found.pieces, strict=True)]})


def _piece(latin: str) -> Any:
    """A token's text; its bytes as numbers where they are only a part of a character."""
    raw = latin.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return [*raw]


async def detokenize(exchange: Exchange) -> Response:
    """The text of tokens."""
    body: DetokenizeBody = exchange.body
    found = await whole(exchange.request, exchange.core.result(
        body.model, Detokenize(ids=body.tokens), exchange.wish()))
    assert isinstance(found, Tokens)
    return JSONResponse({"content": found.text})


async def apply_template(exchange: Exchange) -> Response:
    """The prompt that a conversation becomes."""
    body: TemplateBody = exchange.body
    variables = body.chat_template_kwargs
    chat = Chat(messages=body.messages, tools=body.tools or [],
                parameters={"template_variables": variables} if variables else {})
    found = await whole(exchange.request, exchange.core.result(
        body.model, Count(chat=chat), exchange.wish()))
    assert isinstance(found, Prompt)
    return JSONResponse({"prompt": found.text, "n_tokens": found.n_tokens})


ENDPOINTS = [
    Endpoint("POST", "/tokenize", tokenize, "the tokens of a text", body=TokenizeBody),
    Endpoint("POST", "/detokenize", detokenize, "the text of tokens", body=DetokenizeBody),
    Endpoint("POST", "/apply-template", apply_template, "the prompt of a conversation",
             body=TemplateBody),
]
