"""``/props``, ``/slots``, ``/models``, loading and unloading."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from unladen import __version__
from unladen.server.core import Card
from unladen.server.dialects.native.bodies import Named
from unladen.server.endpoint import Endpoint, Exchange
from unladen.server.faults import Fault

STATUS = {"unloaded": "unloaded", "loading": "loading", "ready": "loaded", "moving": "loaded",
          "failed": "failed", "restarting": "loading"}
"""llama-server's words for a model's state."""


async def props(exchange: Exchange) -> Response:
    """What the server and a model are set to. ``?model=`` names the model."""
    card = await exchange.core.card(exchange.request.query_params.get("model", ""))
    context = card.context_size or card.trained_context
    return JSONResponse({
        "default_generation_settings": {"n_ctx": context, "params": {}}, "n_ctx": context,
        "n_ctx_train": card.trained_context, "total_slots": max(1, card.running),
        "model_alias": card.name, "model_path": card.name, "chat_template": card.template,
        "modalities": {"vision": False, "audio": False},
        "build_info": f"unladen {__version__}", "is_sleeping": card.state == "unloaded",
        **card.condition()})


async def slots(exchange: Exchange) -> Response:
    """The requests under way, as slots without their texts."""
    return JSONResponse([
        {"id": i, "model": card.name, "n_ctx": card.context_size, "is_processing": True}
        for card in exchange.core.cards() for i in range(card.running)])


def _entry(card: Card) -> dict[str, Any]:
    return {"id": card.name, "name": card.name, "in_cache": True,
            "status": {"value": STATUS[card.state], "failed": card.state == "failed",
                       **card.condition()}}


async def every(exchange: Exchange) -> Response:
    """All models and their states."""
    return JSONResponse({"object": "list", "data": [_entry(c) for c in exchange.core.cards()]})


async def load(exchange: Exchange) -> Response:
    """Load a model, and wait until it answers."""
    card = await exchange.core.load(_named(exchange), exchange.wish())
    return JSONResponse({"success": True, **_entry(card)})


async def unload(exchange: Exchange) -> Response:
    """Unload a model once its requests have ended."""
    card = await exchange.core.unload(_named(exchange))
    return JSONResponse({"success": True, **_entry(card)})


def _named(exchange: Exchange) -> str:
    body: Named = exchange.body
    if not body.model:
        raise Fault("bad_request", "model is required", param="model")
    return body.model


ENDPOINTS = [
    Endpoint("GET", "/props", props, "what a model is set to"),
    Endpoint("GET", "/slots", slots, "the requests under way"),
    Endpoint("GET", "/models", every, "all models and their states"),
    Endpoint("POST", "/models/load", load, "load a model", body=Named, scope="manage"),
    Endpoint("POST", "/models/unload", unload, "unload a model", body=Named, scope="manage"),
]
