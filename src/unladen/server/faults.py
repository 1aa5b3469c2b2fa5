"""What can go wrong with a request, before a dialect puts it in its own words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "bad_request",      # the body, a field or a combination of fields is wrong
    "overflow",         # the prompt is longer than the context
    "unknown_model",    # no model of that name
    "not_found",        # no such route or stored object
    "wrong_method",     # the route exists for other methods
    "no_key",           # no key, or a wrong one
    "forbidden",        # the key, the Host or the Origin doesn't allow it
    "too_large",        # the body, a header or the nesting is over its limit
    "too_slow",         # the body didn't arrive in time
    "unsupported",      # the model or the server can't do that
    "full",             # too many requests; retry_after says when to try again
    "deadline",         # the request's time was over
    "load_failed",      # the model can't be loaded
    "out_of_memory",    # a device lacks the memory for it
    "offline",          # the hub can't be reached, or must not be asked
    "worker_lost",      # the worker died, was killed, lost its device or hung
    "closing",          # the server shuts down
    "internal",         # a fault of the server's own
]
"""The kinds of faults. A dialect has a status and a code for each."""

STATUS: dict[Kind, int] = {
    "bad_request": 400, "overflow": 400, "unknown_model": 404, "not_found": 404,
    "wrong_method": 405, "no_key": 401, "forbidden": 403, "too_large": 413, "too_slow": 408,
    "unsupported": 400, "full": 429, "deadline": 504, "load_failed": 503, "out_of_memory": 503,
    "offline": 503, "worker_lost": 503,
    "closing": 503, "internal": 500}
"""The HTTP status of each kind, where a dialect has no other."""


@dataclass(eq=False)
class Fault(Exception):
    """A request's failure: ``message`` says what and where, ``hint`` what to try.

    * ``param``: the field of the body that is wrong, as ``messages.0.role``; "" for none.
    * ``n_tokens``, ``limit``: with ``overflow`` the prompt's tokens and the most that fit.
    * ``allow``: with ``wrong_method`` the methods that the route has, by comma.
    * ``retry_after``: with ``full`` and ``closing`` the seconds after which to try again.
    """

    kind: Kind
    message: str
    hint: str = ""
    param: str = ""
    n_tokens: int = 0
    limit: int = 0
    retry_after: int = 0
    allow: str = ""

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message

    @property
    def status(self) -> int:
        """The HTTP status, where a dialect has no other."""
        return STATUS[self.kind]

    def pack(self) -> dict[str, Any]:
        """This as JSON."""
        return asdict(self)

    @staticmethod
    def unpack(packed: dict[str, Any]) -> Fault:
        """The fault that :meth:`pack` made JSON of."""
        return Fault(**packed)
