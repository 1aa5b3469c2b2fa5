"""What a dialect consists of: endpoints, and its own shape of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.requests import Request
    from starlette.responses import Response

    from unladen.server.core import Caller, Core, Wish
    from unladen.server.faults import Fault
    from unladen.server.state import State

Scope: TypeAlias = Literal["open", "use", "manage"]
"""What a key must allow: nothing, to ask models, or to load, unload and change them."""


@dataclass(slots=True)
class Exchange:
    """One request on its way to a handler.

    * ``request``: Starlette's. ``id``: its number, also in the answer's headers.
    * ``core``: the models. ``caller``: who asks.
    * ``body``: what the endpoint's ``body`` made of the JSON; None where it has none.
    * ``state``: what the server keeps between requests, and its settings.
    """

    request: Request
    id: str
    core: Core
    caller: Caller
    body: Any
    state: State

    def wish(self, **wanted: Any) -> Wish:
        """How this request is to be treated, with its caller."""
        from unladen.server.core import Wish
        return Wish(caller=self.caller, **wanted)


Handler: TypeAlias = Callable[[Exchange], Awaitable["Response"]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route: ``method`` and ``path`` as Starlette writes it (``/v1/models/{id:path}``).

    * ``handler``: a coroutine that raises a ``Fault`` for what is wrong.
    * ``body``: the pydantic model of the body; None: there is none. Unknown fields are ignored.
    * ``scope``: what the caller's key must allow.
    * ``summary``: one line for the description of the API.
    * ``media``: media types of the answer, for that description; empty: JSON, and streams where
      the body has a field ``stream``. ``status``: that of its answers.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[BaseModel] | None = None
    scope: Scope = "use"
    media: Sequence[str] = ()
    status: int = 200


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way to speak to clients; each folder of ``dialects/`` has one as ``DIALECT``.

    * ``name``: shown in metrics and in the audit's lines.
    * ``endpoints``: its routes.
    * ``prefixes``: paths that begin so get this dialect's errors, also where no route matches;
      the longest prefix of all dialects counts.
    * ``error``: the status, the JSON and the headers of a fault, before the first byte is sent.
    * ``id_header``: the header of every answer that has the request's id.
    """

    name: str
    endpoints: Sequence[Endpoint]
    prefixes: Sequence[str]
    error: Callable[[Fault], tuple[int, Any, Mapping[str, str]]]
    id_header: str = "x-request-id"
