"""``/v1/models``: what can be asked for, with the context under every name in use."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from unladen.server.core import Card
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.faults import Fault

STATUS = {"unloaded": "unloaded", "loading": "loading", "ready": "loaded", "moving": "loaded",
          "failed": "failed", "restarting": "loading"}
"""llama-server's words for a model's state."""


def entry(card: Card) -> dict[str, Any]:
    """The entry of a model."""
    context = card.context_size or card.trained_context
    return {
        "id": card.name, "object": "model", "created": card.created, "owned_by": "unladen",
        "aliases": [*card.aliases], "context_length": context, "max_model_len": context,
        "meta": {"n_ctx": context, "n_ctx_train": card.trained_context, "n_vocab": card.n_vocab,
                 "n_embd": card.n_embd, "n_params": card.n_parameters, "size": card.n_bytes},
        "status": {"value": STATUS[card.state], "failed": card.state == "failed",
                   **card.condition()}}


async def every(exchange: Exchange) -> Response:
    """All models. ``models`` is what Codex and llama-server's clients read."""
    cards = [await exchange.core.card(card.name) for card in exchange.core.cards()]
    return JSONResponse({
        "object": "list", "data": [entry(card) for card in cards],
        "models": [{"name": card.name, "model": card.name, "slug": card.name,
                    "display_name": card.name, "type": "model",
                    "context_window": card.context_size or card.trained_context,
                    "capabilities": sorted(card.can)} for card in cards]})


async def one(exchange: Exchange) -> Response:
    """One model. Elsewhere an empty name means the first one."""
    name = exchange.request.path_params["id"]
    if not name:
        raise Fault("unknown_model", "the path names no model", hint="/v1/models lists all")
    return JSONResponse(entry(await exchange.core.card(name)))


ENDPOINTS = [Endpoint("GET", "/v1/models", every, "the models that can be asked for"),
             Endpoint("GET", "/v1/models/{id:path}", one, "one model")]
