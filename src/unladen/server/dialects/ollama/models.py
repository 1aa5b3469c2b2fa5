"""Which models there are, which are loaded, and what their files say."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from unladen.hub.modelfile.writing import written
from unladen.server.core import Card
from unladen.server.dialects.ollama import shapes
from unladen.server.dialects.ollama.bodies import Named
from unladen.server.endpoint import Endpoint, Exchange

API_VERSION = "0.14.0"
"""The version of Ollama whose API this is; clients ask for it to know what they can use."""
CAPABILITIES = {"complete": "completion", "tools": "tools", "reasoning": "thinking",
                "infill": "insert", "embed": "embedding"}
"""Ollama's words for what models can do."""
SIZES = ((1e9, "B"), (1e6, "M"), (1e3, "K"))
"""Units of a number of parameters."""


def _details(card: Card) -> dict[str, Any]:
    size = next((f"{card.n_parameters / unit:.1f}{letter}" for unit, letter in SIZES
                 if card.n_parameters >= unit), str(card.n_parameters))
    return {"parent_model": "", "format": "gguf", "family": card.arch, "families": [card.arch],
            "parameter_size": size, "quantization_level": card.quant}


def _entry(card: Card) -> dict[str, Any]:
    name = shapes.shown_name(card.name)
    return {"name": name, "model": name, "size": card.n_bytes, "digest": card.digest,
            "details": _details(card)}


async def tags(exchange: Exchange) -> Response:
    """All models."""
    cards = [await exchange.core.card(card.name) for card in exchange.core.cards()]
    return JSONResponse({"models": [{**_entry(card), "modified_at": shapes.at(card.created)}
                                    for card in cards]})


async def ps(exchange: Exchange) -> Response:
    """The models that are loaded or on their way: Ollama's fields, and the state beside them."""
    found = [card for card in exchange.core.cards() if card.state != "unloaded"]
    return JSONResponse({"models": [{
        **_entry(card), "context_length": card.context_size or card.trained_context,
        "expires_at": shapes.at(card.expires),
        "size_vram": card.gpu_bytes, "size_by_device": card.device_bytes,
        **card.condition(), "running": card.running, "waiting": card.waiting,
        "tokens_per_second": round(card.tokens_per_second, 2)} for card in found]})


async def show(exchange: Exchange) -> Response:
    """What a model's file says."""
    name = await shapes.known_name(exchange, exchange.body.model)
    card = await exchange.core.card(name)
    info = {**card.metadata, "general.architecture": card.arch,
            "general.parameter_count": card.n_parameters,
            f"{card.arch}.context_length": card.context_size or card.trained_context}
    preset = card.preset
    parameters = preset.get("parameters", {})
    told = {name: preset[name] for name in ("system", "messages") if preset.get(name)}
    return JSONResponse({
        "modelfile": written([card.name], parameters=parameters, **told),
        "parameters": "\n".join(f"{name:30} {json.dumps(each)}" for name, value in
                                parameters.items()
                                for each in (value if isinstance(value, list) else [value])),
        **told, "template": card.template,
        "license": str(card.metadata.get("general.license", "")), "details": _details(card),
        "model_info": info, "capabilities": [word for can, word in CAPABILITIES.items()
                                             if can in card.can],
        "modified_at": shapes.at(card.created)})


async def version(exchange: Exchange) -> Response:
    """The version of the API."""
    return JSONResponse({"version": API_VERSION})


async def status(exchange: Exchange) -> Response:
    """The server runs, and has no cloud behind it."""
    return JSONResponse({"status": "ok", "cloud": {"disabled": True, "source": "none"}})


async def root(exchange: Exchange) -> Response:
    """What Ollama says to those who look whether it is there."""
    return PlainTextResponse("Ollama is running")


ENDPOINTS = [
    Endpoint("GET", "/api/tags", tags, "the models that can be asked for"),
    Endpoint("GET", "/api/ps", ps, "the models that are loaded"),
    Endpoint("POST", "/api/show", show, "what a model's file says", body=Named),
    Endpoint("GET", "/api/version", version, "the version of the API"),
    Endpoint("GET", "/api/status", status, "whether the server runs"),
    Endpoint("HEAD", "/", root, "whether the server runs", scope="open",
             media=("text/plain",)),
]
