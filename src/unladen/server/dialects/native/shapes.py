"""Errors, events and times as llama-server writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unladen.server.events import Ended
from unladen.server.faults import Fault, Kind

_TYPES: Mapping[Kind, str] = {
    "bad_request": "invalid_request_error", "overflow": "exceed_context_size_error",
    "unsupported": "not_supported_error", "unknown_model": "not_found_error",
    "not_found": "not_found_error", "no_key": "authentication_error",
    "forbidden": "permission_error", "full": "unavailable_error",
    "load_failed": "unavailable_error", "out_of_memory": "unavailable_error",
    "offline": "unavailable_error", "worker_lost": "unavailable_error",
    "closing": "unavailable_error", "internal": "server_error", "deadline": "server_error",
    "too_large": "invalid_request_error", "too_slow": "invalid_request_error",
    "wrong_method": "invalid_request_error"}
"""The type of each kind of fault."""


def content(fault: Fault) -> dict[str, Any]:
    """The JSON of ``fault``."""
    described: dict[str, Any] = {"code": fault.status, "message": str(fault),
                                 "type": _TYPES[fault.kind]}
    if fault.param:
        described["param"] = fault.param
    if fault.kind == "overflow":
        described |= {"n_prompt_tokens": fault.n_tokens, "n_ctx": fault.limit}
    return {"error": described}


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """Status, JSON and headers of ``fault``."""
    return fault.status, content(fault), {}


def data(value: Any) -> bytes:
    """A server-sent event of ``value``."""
    return b"data: " + json.dumps(value, ensure_ascii=False,
                                  separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"


def timings(end: Ended) -> dict[str, float]:
    """Times in milliseconds, and tokens a second."""
    n_read, n_more = end.n_prompt - end.n_cached, max(0, end.n_completion - 1)
    prompt_ms, predicted_ms = end.prompt_s * 1e3, end.completion_s * 1e3
    return {
        "cache_n": end.n_cached, "prompt_n": n_read, "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / n_read if n_read else 0.0,
        "prompt_per_second": n_read / end.prompt_s if end.prompt_s > 0 else 0.0,
        "predicted_n": end.n_completion, "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / n_more if n_more else 0.0,
        "predicted_per_second": n_more / end.completion_s if end.completion_s > 0 else 0.0}
