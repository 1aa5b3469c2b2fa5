"""Faults as OpenAI's clients expect them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unladen.server.faults import Fault, Kind

INVALID = "invalid_request_error"
"""The type of errors that are the client's."""

_WORDS: Mapping[Kind, tuple[str, str | None]] = {
    "bad_request": (INVALID, None), "overflow": (INVALID, "context_length_exceeded"),
    "unknown_model": (INVALID, "model_not_found"), "not_found": (INVALID, "not_found"),
    "wrong_method": (INVALID, "method_not_allowed"), "no_key": (INVALID, "invalid_api_key"),
    "forbidden": ("permission_error", "forbidden"), "too_large": (INVALID, "request_too_large"),
    "too_slow": (INVALID, "request_timeout"), "unsupported": (INVALID, "unsupported_value"),
    "full": ("rate_limit_error", "rate_limit_exceeded"),
    "deadline": ("server_error", "deadline_exceeded"),
    "load_failed": ("server_error", "model_load_failed"),
    "out_of_memory": ("server_error", "out_of_memory"), "offline": ("server_error", "offline"),
    "worker_lost": ("server_error", "worker_lost"), "closing": ("server_error", "shutting_down"),
    "internal": ("server_error", "internal_error")}
"""The type and the code of each kind of fault."""


def content(fault: Fault) -> dict[str, Any]:
    """The JSON of ``fault``. An overflow has both numbers, as llama-server's clients read them."""
    kind, code = _WORDS[fault.kind]
    described: dict[str, Any] = {"message": str(fault), "type": kind, "param": fault.param or None,
                                 "code": code}
    if fault.kind == "overflow":
        described |= {"n_prompt_tokens": fault.n_tokens, "n_ctx": fault.limit}
    return {"error": described}


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """Status, JSON and headers of ``fault``."""
    return fault.status, content(fault), {}


def event(fault: Fault) -> bytes:
    """``fault`` in a stream that has begun."""
    return data(content(fault))


def data(value: Any) -> bytes:
    """A server-sent event of ``value``."""
    return b"data: " + json.dumps(value, ensure_ascii=False,
                                  separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"


DONE = b"data: [DONE]\n\n"
"""The last event of a stream that is whole."""
PING = b": ping\n\n"
"""A comment that keeps a connection alive."""
