"""What a worker does for one request of a client: a job."""

from __future__ import annotations

from unladen.server.events import Event, Result, pack
from unladen.server.faults import Fault
from unladen.server.ipc import Message


class Job:
    """The work for the request with the number ``id``. The thread that runs steps calls
    :meth:`news`, any thread :meth:`cancel`."""

    def __init__(self, id: int) -> None:  # noqa: A002  # the name that it has in messages
        self.id = id

    def news(self, out: list[Message]) -> bool:
        """Append what happened since the last call to ``out``; True once the job is done. May raise
        what makes the job fail."""
        raise NotImplementedError

    def tokens(self) -> list[int]:
        """The tokens of the conversation; none where there is none."""
        return []

    @property
    def n_written(self) -> int:
        """Tokens that were written so far."""
        return 0

    def cancel(self) -> None:
        """Stop the work that isn't done."""
        raise NotImplementedError


def event(job: int, happened: Event) -> Message:
    """The message that ``happened`` in ``job``."""
    return ["event", job, pack(happened)]


def result(job: int, found: Result) -> Message:
    """The message that ``found`` is the result of ``job``."""
    return ["result", job, pack(found)]


def failed(job: int, fault: Fault) -> Message:
    """The message that ``job`` ended by ``fault``."""
    return ["failed", job, fault.pack()]


def started(job: int) -> Message:
    """The message that ``job`` no longer waits in the engine's queue."""
    return ["started", job]


def ended(job: int) -> Message:
    """The message that nothing more comes from ``job``."""
    return ["ended", job]
