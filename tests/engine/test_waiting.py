"""The queue: which request is next, how many may wait, and when waiting ends."""

from __future__ import annotations

import os
import threading
from collections import Counter

import numpy as np
import pytest

from unladen.engine.request import Request
from unladen.engine.waiting import PASSED_OVER, Waiting
from unladen.errors import DeadlineExceeded, QueueFull


class NoText:
    """A decoder of tokens that are no text."""

    def push(self, token_id: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


def request(priority: int = 0, deadline: float | None = None, n: int = 1, max_tokens: int = 4
            ) -> Request:
    return Request([5] * n, sampler=None, decoder=NoText(),  # type: ignore[arg-type]
                   max_tokens=max_tokens, priority=priority, deadline=deadline)


def first(waiting: Waiting) -> Request:
    return next(waiting.in_turn())


def served(waiting: Waiting) -> Request:
    found = first(waiting)
    waiting.take(found)
    return found


def test_higher_priorities_first_and_equal_ones_as_they_came() -> None:
    waiting = Waiting(100)
    came = [request(p) for p in (0, 2, 0, -1, 2, 0)]
    for each in came:
        waiting.add(each, 0)
    order = [came[i] for i in (1, 4, 0, 2, 5, 3)]
    assert list(waiting.in_turn()) == order
    assert [served(waiting) for _ in came] == order
    assert not waiting and not list(waiting)


def test_what_was_taken_before_comes_first_of_its_priority() -> None:
    waiting = Waiting(0)
    low, back, high = request(), request(), request(1)
    for each in (back, low, high):
        waiting.add(each, 3)
    waiting.take(back)
    waiting.put_back(back)
    assert list(waiting.in_turn()) == [high, back, low]


def test_nobody_starves(rng: np.random.Generator) -> None:
    """However many of higher priorities come, number n of a priority waits for at most
    n * (PASSED_OVER + number of priorities) others."""
    for _ in range(20):
        waiting, n_priorities = Waiting(10**6), int(rng.integers(2, 50))
        due: dict[Request, int] = {}
        n_before: Counter[int] = Counter()
        for n_served in range(1500):
            for priority in rng.integers(0, n_priorities, rng.integers(1, 4)).tolist():
                new = request(priority)
                n_before[priority] += 1
                due[new] = n_served + n_before[priority] * (PASSED_OVER + n_priorities)
                waiting.add(new, 0)
            each = served(waiting)
            n_before[each.priority] -= 1
            assert n_served <= due.pop(each)
        assert all(d >= 1500 for d in due.values())


def test_mostly_the_highest(rng: np.random.Generator) -> None:
    waiting = Waiting(10**6)
    for priority in [0, 1] * 500:
        waiting.add(request(priority), 0)
    counts = Counter(served(waiting).priority for _ in range(500))
    assert counts[0] <= -(-500 // PASSED_OVER) < counts[1]


@pytest.mark.parametrize("limit", [0, 3])
def test_full(limit: int) -> None:
    waiting = Waiting(limit)
    for _ in range(limit + 2):
        waiting.add(request(), 2)
    with pytest.raises(QueueFull, match=f"{limit + 2} requests wait.*max_queue") as caught:
        waiting.add(request(5), 2)
    assert caught.value.n_waiting == len(waiting) == limit + 2
    served(waiting)
    waiting.add(request(), 2)


def test_full_for_many_threads() -> None:
    waiting, refused = Waiting(50), []
    barrier = threading.Barrier(8)

    def add() -> None:
        barrier.wait()
        for _ in range(20):
            try:
                waiting.add(request(), 0)
            except QueueFull:
                refused.append(1)
    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waiting) == 50 and len(refused) == 110


def test_late_cancelled_and_ended_ones_leave() -> None:
    waiting = Waiting(10)
    late, later, cancelled, ended, stays = (request(deadline=5.0), request(deadline=7.0),
                                            request(), request(1), request())
    for each in (late, later, cancelled, ended, stays):
        waiting.add(each, 0)
    waiting.sweep(4.9)
    assert len(waiting) == 5
    waiting.sweep(5.0)
    assert isinstance(late.error, DeadlineExceeded) and isinstance(late.error, TimeoutError)
    assert len(waiting) == 4
    cancelled.cancelled = True
    ended.fail(ValueError())
    waiting.sweep(6.0)
    assert len(waiting) == 4, "nobody said that some have ended"
    waiting.end()
    waiting.sweep(6.0)
    assert set(waiting) == {later, stays} and cancelled.stop_reason == "cancelled"
    waiting.sweep(7.0)
    assert set(waiting) == {stays}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_forked_child_begins_with_nobody() -> None:
    waiting = Waiting(1)
    waiting.add(request(), 0)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with waiting._lock:
            held.set()
            go.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        waiting.renew()
        waiting.add(request(), 0)
        os._exit(len(waiting) != 1)
    go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
