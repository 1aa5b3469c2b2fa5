"""Loaded by schemathesis: lets most of the bodies that it makes name a model that is there."""

from __future__ import annotations

import json
import zlib
from typing import Any

import schemathesis

NAMES = ("tiny-chat", "tiny", "")
"""Models that are served; "" is the first one."""
KEPT = 5
"""One body in this many keeps its own model."""


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """``body`` with another model. The choice follows from the body, as cases are made again."""
    if isinstance(body, dict):
        number = zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode())
        if number % KEPT:
            return {**body, "model": NAMES[number // KEPT % len(NAMES)]}
    return body
