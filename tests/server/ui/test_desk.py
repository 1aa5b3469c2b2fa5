"""The process that answers the page's questions forgets those that nobody waits for."""

from __future__ import annotations

import threading
from typing import Any

from unladen.server.ipc import Message
from unladen.server.worker.desk import N_THREADS, Desk


class Kept:
    """In place of the link: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.came = threading.Semaphore(0)

    def send(self, messages: list[Message]) -> None:
        self.sent += messages
        self.came.release(len(messages))


def test_questions_that_were_dropped_are_not_answered_and_leave_nothing() -> None:
    link: Any = Kept()
    desk, go_on = Desk(link), threading.Event()
    asked: list[Any] = []

    def look(what: Any) -> Any:
        assert go_on.wait(60)
        asked.append(what)
        return what

    desk._answers = {"look": look}
    for number in range(2 * N_THREADS):
        desk.handle(["ask", number, "look", [number]])
    for number in range(N_THREADS, 2 * N_THREADS):
        desk.handle(["drop", number])
    go_on.set()
    for _ in range(N_THREADS):
        assert link.came.acquire(timeout=60)
    for number in range(100):
        desk.handle(["drop", number])  # these were answered, or never asked
    desk.handle(["ask", 7, "look", ["again"]])
    assert link.came.acquire(timeout=60)
    assert sorted(asked[:-1]) == [*range(N_THREADS)]
    assert link.sent[-1] == ["answered", 7, "again"]
    assert not desk._waiting
