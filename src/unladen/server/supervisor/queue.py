"""The requests of one model: those that its worker has, and those that wait for it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from unladen.server.asked import Asked
from unladen.server.core import Wish
from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.supervisor.ticket import Ticket

RECENT: Final = 32
"""Requests whose durations tell how long the queue takes."""
LONGEST_WAIT: Final = 600
"""Seconds after which a client is told to try again at most."""


class Queue:
    """The requests of the model ``name``, in the order in which they came. ``max_waiting`` of them
    may wait beyond those that the next step has room for. :attr:`n_seqs`: sequences of a step."""

    def __init__(self, name: str, max_waiting: int) -> None:
        self._name, self._max_waiting = name, max_waiting
        self.n_seqs = 1
        self._tickets: dict[int, Ticket] = {}
        self._durations: deque[float] = deque(maxlen=RECENT)
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(list(self._tickets.values()))

    def get(self, id: int) -> Ticket | None:  # noqa: A002
        """The request with the number ``id`` that isn't done; None: there is none."""
        ticket = self._tickets.get(id)
        return None if ticket is None or ticket.is_done else ticket

    @property
    def n_running(self) -> int:
        """Requests that are computed."""
        return sum(ticket.is_started for ticket in self)

    @property
    def n_waiting(self) -> int:
        """Requests that aren't computed yet."""
        return len(self._tickets) - self.n_running

    @property
    def is_busy(self) -> bool:
        """Whether the worker has requests that aren't done."""
        return any(ticket.is_sent and not ticket.is_done for ticket in self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done."""
        return all(ticket.is_done for ticket in self)

    @property
    def n_before(self) -> int:
        """Requests that have to end before the next one is computed."""
        return max(0, len(self._tickets) + 1 - self.n_seqs)

    def add(self, asked: Asked, wish: Wish) -> Ticket:
        """A new request. Raises a ``Fault`` where too many wait."""
        free = max(0, self.n_seqs - self.n_running)
        if self.n_waiting >= self._max_waiting + free:
            raise Fault("full", f"{self.n_waiting} requests wait for {self._name!r}",
                        hint="try again later", retry_after=self._retry_after())
        self._last_id += 1
        ticket = self._tickets[self._last_id] = Ticket(self._last_id, asked, wish)
        return ticket

    def remove(self, ticket: Ticket) -> Message | None:
        """Forget ``ticket``; returns what tells its worker to stop, if that has to know."""
        if self._tickets.pop(ticket.id, None) is None:
            return None
        was_done = ticket.is_done
        if was_done and not ticket.has_failed:
            self._durations.append(time.monotonic() - ticket.came)
        ticket.end()
        return ["cancel", ticket.id] if ticket.is_sent and not was_done else None

    def unsent(self) -> list[Ticket]:
        """The requests that wait for a worker."""
        return [ticket for ticket in self if not ticket.is_sent and not ticket.is_done]

    def lose(self, fault: Fault) -> None:
        """The worker died: end what it wrote by ``fault``, and let the others wait for the next
        worker."""
        for ticket in self:
            if ticket.is_sent and not ticket.is_done:
                if ticket.can_be_retried():
                    ticket.wait_again()
                else:
                    ticket.end(replace(fault))

    def fail(self, fault: Fault, options: Mapping[str, Any] | None = None) -> None:
        """End all requests by ``fault``. ``options``: only those that asked for these options of
        the model's load."""
        for ticket in self:
            if options is None or ticket.wish.options == options:
                ticket.end(replace(fault))

    def _retry_after(self) -> int:
        usual = sum(self._durations) / len(self._durations) if self._durations else 1.0
        return min(LONGEST_WAIT, max(1, math.ceil(usual * self.n_waiting / self.n_seqs)))
