"""Computes several prompts together. A few requests are under way; the others aren't made yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from unladen.api.prompts import blame
from unladen.errors import QueueFull

if TYPE_CHECKING:
    from unladen.engine import Engine, Request

T = TypeVar("T")
SHARE = 2
"""Requests under way for each sequence that fits into a step. With two, the next step is full even
where all requests of a step end at once. Prompts beyond these take no memory but that of their
token ids."""


class Together(Generic[T]):
    """``n`` requests: ``make(i)`` makes request i, ``take`` returns the result of a request that is
    done. An error of one request ends all of them, and is raised with ``name`` and the request's
    number. Call :meth:`run`. Or call :meth:`refill` and :meth:`collect` around steps of your own,
    and :meth:`stop` in any case.
    """

    def __init__(self, engine: Engine, n: int, make: Callable[[int], Request],
                 take: Callable[[Request], T], name: str) -> None:
        self._engine, self._make, self._take, self._name = engine, make, take, name
        self._n, self._next = n, 0
        self._room = SHARE * engine.plan.blueprint.limits.n_seqs
        self._under_way: dict[int, Request] = {}
        self._results: dict[int, T] = {}

    def run(self) -> list[T]:
        """Compute all requests; the results in their order."""
        try:
            while (oldest := self.refill()) is not None:
                self._engine.advance(oldest)
                self.collect()
        finally:
            self.stop()
        return self.results

    @property
    def results(self) -> list[T]:
        """The results of the requests, in their order."""
        return [self._results[i] for i in sorted(self._results)]

    def refill(self) -> Request | None:
        """Queue requests as long as there is room. Returns the oldest request that isn't done;
        None where all are done. Raises :class:`QueueFull` where other callers' requests fill the
        queue."""
        while self._next < self._n and len(self._under_way) < self._room:
            i = self._next
            try:
                request = self._make(i)
                if not request.done:
                    self._engine.submit(request)
            except BaseException as error:
                if isinstance(error, QueueFull) and self._under_way:
                    break  # try again when one of these ends
                blame(error, f"{self._name}[{i}]")
                raise
            self._next += 1
            self._under_way[i] = request
            if request.done:
                self.collect()
        return next(iter(self._under_way.values()), None)

    def collect(self) -> None:
        """Take the results of requests that are done; raises the error of one that failed."""
        for i, request in list(self._under_way.items()):
            request.pieces.clear()  # no caller reads them; emptied, so that new pieces are noticed
            if request.done:
                del self._under_way[i]
                try:
                    self._results[i] = self._take(request)
                except BaseException as error:
                    blame(error, f"{self._name}[{i}]")
                    raise

    def stop(self) -> None:
        """Cancel the requests that aren't done."""
        for request in self._under_way.values():
            if not request.done:
                self._engine.cancel(request)
        self._under_way.clear()
