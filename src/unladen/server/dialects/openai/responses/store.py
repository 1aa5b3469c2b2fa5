"""Responses that can be asked for again, and continued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unladen.server.faults import Fault
from unladen.server.remembered import Remembered

MAX_KEPT = 1000
"""Responses that are kept; the oldest are forgotten."""
MAX_BYTES = 2**28
"""Bytes of memory that they take at most: a single request may have 64 MB."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response: ``owner`` is the name of the key that asked for it; ``messages`` are all up to
    and with its answer; ``inputs`` are the items that it was asked with."""

    owner: str
    response: dict[str, Any]
    messages: list[dict[str, Any]]
    inputs: list[dict[str, Any]]


class Store:
    """The responses by their owners and ids, in memory."""

    def __init__(self) -> None:
        self._kept: Remembered[tuple[str, str]] = Remembered(MAX_KEPT, MAX_BYTES)

    def keep(self, kept: Kept) -> None:
        """Keep a response."""
        self._kept.add((kept.owner, kept.response["id"]),
                       [kept.response, kept.messages, kept.inputs])

    def of(self, response_id: str, owner: str, param: str = "") -> Kept:
        """The response of that id. Raises a ``Fault`` where there is none, or it is another
        key's."""
        return Kept(owner, *self._kept.get(self._known(response_id, owner, param)))

    def forget(self, response_id: str, owner: str) -> None:
        """Forget a response. Raises a ``Fault``, as :meth:`of` does."""
        self._kept.remove(self._known(response_id, owner))

    def _known(self, response_id: str, owner: str, param: str = "") -> tuple[str, str]:
        """The key of a response that is kept."""
        if (owner, response_id) not in self._kept:
            raise Fault("not_found", f"there is no response {response_id[:80]!r}", param=param,
                        hint="responses are kept where store is true, until newer ones need the "
                             "room or the server ends")
        return owner, response_id
