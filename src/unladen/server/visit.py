"""What is known of one request from its first byte to its last."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from unladen.server.core import Caller

IN_SCOPE: Final = "unladen.visit"
"""The key of ASGI's scope under which a request's :class:`Visit` is."""
_ID_BYTES: Final = 12
"""Random bytes of a request's id: two are never the same."""


@dataclass(slots=True, kw_only=True)
class Visit:
    """A request.

    * ``closing``: set when the server ends running requests. ``caller``: who asks.
    * ``id``: also in the answer's headers. ``began``: seconds of :func:`time.monotonic`.
    * ``method``, ``path``, ``client``: as sent; the client's address.
    * ``dialect``, ``route``, ``model``: names for the audit and the metrics; "" where unknown.
    * ``status``: of the answer; 0: none was sent. ``fault``: the kind of fault that ended it.
    * ``n_prompt``, ``n_cached``, ``n_completion``: tokens. ``n_answers``: that were asked for.
    * ``n_truncated``: tokens of conversations that were left out. ``notes``: what was changed in
      them, a sentence each.
    * ``first_s``: seconds to the first piece of an answer; None: there was none.
    * ``wait_s``, ``load_s``, ``prompt_s``, ``completion_s``: seconds in the queue, of loading, for
      the prompt and for the rest, of the answer that took longest.
    """

    closing: asyncio.Event
    method: str
    path: str
    client: str = ""
    id: str = field(default_factory=lambda: f"req_{secrets.token_hex(_ID_BYTES)}")
    began: float = field(default_factory=time.monotonic)
    caller: Caller = field(default_factory=Caller)
    dialect: str = ""
    route: str = ""
    model: str = ""
    status: int = 0
    fault: str = ""
    n_prompt: int = 0
    n_cached: int = 0
    n_completion: int = 0
    n_answers: int = 0
    n_truncated: int = 0
    notes: list[str] = field(default_factory=list)
    first_s: float | None = None
    wait_s: float = 0.0
    load_s: float = 0.0
    prompt_s: float = 0.0
    completion_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the request came."""
        return time.monotonic() - self.began

    def line(self) -> dict[str, Any]:
        """The request in the audit, without its text."""
        return {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "id": self.id,
            "key": self.caller.name, "client": self.client, "method": self.method,
            "dialect": self.dialect, "route": self.route, "model": self.model,
            "status": self.status, "fault": self.fault, "n_prompt": self.n_prompt,
            "n_cached": self.n_cached, "n_completion": self.n_completion,
            "n_truncated": self.n_truncated, "n_notes": len(self.notes),
            "seconds": round(self.seconds, 4),
            "first_s": None if self.first_s is None else round(self.first_s, 4)}


def visit_of(scope: Mapping[str, Any]) -> Visit | None:
    """The visit of a request with ``scope``; None outside the server's own application."""
    found: Visit | None = scope.get(IN_SCOPE)
    return found
