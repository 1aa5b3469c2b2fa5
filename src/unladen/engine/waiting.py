"""The queue of requests: how many may wait, and which one is computed next."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator

from unladen.engine.request import Request
from unladen.errors import QueueFull

PASSED_OVER = 32
"""Requests of other priorities that are begun one after another before a priority that waits has a
turn, so that no priority waits for ever. As many as are computed together by default."""


class Waiting:
    """A queue for each priority, first come, first served. The highest priority comes first.

    At least one of ``PASSED_OVER`` + 1 requests has a lower priority, if such a request waits. So
    number n of any priority has its turn after at most n * (``PASSED_OVER`` + number of priorities)
    others.
    Beyond the free places of the next step at most ``limit`` requests wait.

    Any thread may :meth:`add`, :meth:`withdraw` and look; the thread that runs steps does all else.
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
        # An RLock: a finalizer or a signal handler may add a request while its thread holds the
        # lock.
        self._lock = threading.RLock()
        self._queues.clear()
        self._n_passed.clear()

    def __len__(self) -> int:
        return sum(map(len, list(self._queues.values())))

    def __iter__(self) -> Iterator[Request]:
        """All waiting requests, as of this moment."""
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
        """All waiting requests, in the order in which they are to be computed."""
        for priority in sorted(self._queues, key=self._rank):
            yield from list(self._queues[priority])

    def take(self, request: Request) -> bool:
        """Remove ``request``, which is computed from now on; its priority has had a turn. False:
        another thread has withdrawn it."""
        if not self.withdraw(request):
            return False
        self._n_passed[request.priority] = 0
        with self._lock:
            for priority, queue in list(self._queues.items()):
                if not queue:
                    del self._queues[priority]
                    self._n_passed.pop(priority, None)
                elif priority != request.priority:
                    self._n_passed[priority] = self._n_passed.get(priority, 0) + 1
        return True

    def withdraw(self, request: Request) -> bool:
        """Remove ``request`` from its queue; False: it doesn't wait. Only the caller that gets True
        may end a request that waits, and only once."""
        with self._lock:
            try:
                self._queues[request.priority].remove(request)
            except (KeyError, ValueError):
                return False
        return True

    def end(self) -> None:
        """Note that some requests were cancelled or have ended: the next :meth:`sweep` looks for
        them."""
        self._has_ended = True

    def sweep(self, now: float) -> None:
        """Drop the requests that were cancelled, have ended or are late at ``now``."""
        if not self._has_ended and now < self._next_deadline:
            return
        self._has_ended, self._next_deadline = False, math.inf
        for request in self:
            if not self.drop(request, now):
                self._remember(request)

    def drop(self, request: Request, now: float) -> bool:
        """Drop ``request`` if it was cancelled, has ended or is late at ``now``. False: it goes on
        waiting."""
        if not (request.done or request.cancelled or request.is_late(now)):
            return False
        if self.withdraw(request):
            request.give_up(now)
        return True

    def _remember(self, request: Request) -> None:
        if request.deadline is not None:
            with self._lock:
                self._next_deadline = min(self._next_deadline, request.deadline)

    def _rank(self, priority: int) -> tuple[int, int]:
        n_passed = self._n_passed.get(priority, 0)
        return (-n_passed if n_passed >= PASSED_OVER else 0), -priority
