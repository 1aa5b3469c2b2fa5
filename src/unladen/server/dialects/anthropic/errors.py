"""Faults and events as Anthropic's clients expect them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unladen.server.faults import Fault, Kind

_TYPES: Mapping[Kind, str] = {
    "bad_request": "invalid_request_error", "overflow": "invalid_request_error",
    "unsupported": "invalid_request_error", "wrong_method": "invalid_request_error",
    "too_slow": "invalid_request_error", "unknown_model": "not_found_error",
    "not_found": "not_found_error", "no_key": "authentication_error",
    "forbidden": "permission_error", "too_large": "request_too_large", "full": "rate_limit_error",
    "deadline": "timeout_error", "load_failed": "api_error", "worker_lost": "api_error",
    "out_of_memory": "api_error", "offline": "api_error", "closing": "overloaded_error",
    "internal": "api_error"}
"""The type of each kind of fault."""
OVERLOADED = 529
"""Anthropic's status of a server that takes no more for now."""


def content(fault: Fault) -> dict[str, Any]:
    """The JSON of ``fault``. Clients look for the beginning of an overflow's message."""
    text = str(fault)
    if fault.kind == "overflow":
        text = f"prompt is too long: {fault.n_tokens} tokens > {fault.limit} maximum"
    elif fault.param:
        text = f"{fault.param}: {text}"
    return {"type": "error", "error": {"type": _TYPES[fault.kind], "message": text}}


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """Status, JSON and headers of ``fault``."""
    return OVERLOADED if fault.kind == "closing" else fault.status, content(fault), {}


def failed(fault: Fault) -> bytes:
    """``fault`` in a stream that has begun."""
    return event(content(fault))


def event(value: Mapping[str, Any]) -> bytes:
    """A server-sent event, named by its type."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"event: {value['type']}\ndata: {text}\n\n".encode("utf-8", "replace")


PING = event({"type": "ping"})
"""The event that keeps a connection alive."""
