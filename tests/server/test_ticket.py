"""A request whose worker dies before it writes is begun again, and its client sees one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("starlette")

from server.hosting import hello, run
from server.scripted import ScriptedCore, ended
from unladen.server.core import PLAIN
from unladen.server.events import Begun, Event, Piece, Waiting
from unladen.server.faults import Fault
from unladen.server.metrics import Metrics
from unladen.server.observed import Observed
from unladen.server.settings import Settings
from unladen.server.supervisor.queue import Queue
from unladen.server.supervisor.ticket import Ticket
from unladen.server.visit import Visit

LOST = Fault("worker_lost", "it died")
BEGUN = Begun(11, 40, ("a note",))


class OneTicket(ScriptedCore):
    """A core whose only answer is what comes of ``ticket``."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__()
        self._ticket = ticket

    @asynccontextmanager
    async def answer(self, *_: Any) -> AsyncIterator[AsyncIterator[Event]]:
        yield self._ticket.items()  # type: ignore[misc]


def test_an_answer_that_is_begun_again_is_told_and_counted_once() -> None:
    async def test() -> None:
        queue = Queue("tiny", 10)
        ticket = queue.add(hello(), PLAIN)
        core = OneTicket(ticket)
        visit = Visit(closing=asyncio.Event(), method="POST", path="/")
        observed = Observed(core, visit, Metrics(core), Settings())
        ticket.message(0.0)
        ticket.put(BEGUN)
        queue.lose(LOST)
        assert queue.unsent() == [ticket]
        ticket.put(Waiting("loading", 0.5))
        ticket.message(0.0)
        for event in (BEGUN, Piece(0, "a"), ended()):
            ticket.put(event)
        ticket.end()
        async with observed.answer("tiny", hello()) as events:
            seen = [event async for event in events]
        assert [type(each) for each in seen].count(Begun) == 1
        assert seen[0] == BEGUN
        assert (visit.n_truncated, visit.notes, visit.n_prompt, visit.n_completion) == (
            40, ["a note"], 11, 5)
    run(test)


def test_an_answer_is_begun_again_once_and_never_after_its_first_piece() -> None:
    async def test() -> None:
        queue = Queue("tiny", 10)
        written, silent = (queue.add(hello(), PLAIN) for _ in range(2))
        for ticket in (written, silent):
            ticket.message(0.0)
            ticket.put(BEGUN)
        written.put(Piece(0, "a"))
        queue.lose(LOST)
        assert written.has_failed and not silent.is_done
        silent.message(0.0)
        silent.put(BEGUN)
        queue.lose(LOST)
        assert silent.has_failed
    run(test)
