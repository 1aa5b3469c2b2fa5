"""Requests that wait to be computed: how many may wait, and whose turn it is."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator

from unladen.engine.request import Request
from unladen.errors import QueueFull

PASSED_OVER = 32
"""Requests that others may be preferred to one after another, before a lower priority has a turn:
as many as are computed together by default, so that no priority waits for ever."""


class Waiting:
    """A queue for each priority, first come, first served. The highest priority comes first.

    At least one of ``PASSED_OVER`` + 1 requests has a lower priority, if such a request waits. So
    number n of any priority has its turn after at most n * (``PASSED_OVER`` + number of priorities)
    others.
    Beyond the free places of the next step at most ``limit`` requests wait.

    Any thread may :meth:`add` and look; the thread that runs steps does all else.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queues: dict[int, deque[Request]] = {}
        self._n_passed: dict[int, int] = {}
        self._next_deadline = math.inf
        self._has_ended = False
        self.renew()

    def renew(self) -> None:
        """In a forked child: nobody waits, and no thread of the parent holds the lock."""
        # A finalizer or a signal handler may add a request while its thread does so.
        self._lock = threading.RLock()
        self._queues.clear()
        self._n_passed.clear()

    def __len__(self) -> int:
        return sum(map(len, list(self._queues.values())))

    def __iter__(self) -> Iterator[Request]:
        """All of them, as they are at this moment."""
        return iter([request for queue in list(self._queues.values()) for request in list(queue)])

    def add(self, request: Request, n_places: int) -> None:
        """Let ``request`` wait, where ``n_places`` are free in the next step; raises
        :class:`QueueFull`."""
        with self._lock:
            n = len(self)
            if n >= self._limit + n_places:
                raise QueueFull(
                    f"the queue is full: {n} requests wait", n_waiting=n,
                    hint="ask again later, or load the model with a larger max_queue")
            self._queues.setdefault(request.priority, deque()).append(request)
        self._remember(request)

    def put_back(self, request: Request) -> None:
        """Let ``request``, which was taken before, wait at the head of its priority."""
        self._queues.setdefault(request.priority, deque()).appendleft(request)
        self._remember(request)

    def in_turn(self) -> Iterator[Request]:
        """All of them in the order in which they are to be computed."""
        for priority in sorted(self._queues, key=self._rank):
            yield from list(self._queues[priority])

    def take(self, request: Request) -> None:
        """``request`` is computed from now on."""
        self.discard(request)
        self._n_passed[request.priority] = 0
        with self._lock:
            for priority, queue in list(self._queues.items()):
                if not queue:
                    del self._queues[priority]
                    self._n_passed.pop(priority, None)
                elif priority != request.priority:
                    self._n_passed[priority] = self._n_passed.get(priority, 0) + 1

    def discard(self, request: Request) -> None:
        """``request`` waits no more."""
        self._queues[request.priority].remove(request)

    def end(self) -> None:
        """Some requests were cancelled, or have ended otherwise."""
        self._has_ended = True

    def sweep(self, now: float) -> None:
        """Drop the requests that were cancelled, have ended or are late at ``now``."""
        if not self._has_ended and now < self._next_deadline:
            return
        self._has_ended, self._next_deadline = False, math.inf
        for request in self:
            if request.cancelled:
                request.finish("cancelled")
            elif request.is_late(now):
                request.expire()
            if request.done:
                self.discard(request)
            else:
                self._remember(request)

    def _remember(self, request: Request) -> None:
        if request.deadline is not None:
            with self._lock:
                self._next_deadline = min(self._next_deadline, request.deadline)

    def _rank(self, priority: int) -> tuple[int, int]:
        n_passed = self._n_passed.get(priority, 0)
        return (-n_passed if n_passed >= PASSED_OVER else 0), -priority
