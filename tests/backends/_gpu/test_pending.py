"""Work that several threads start on a device and drop when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

import pytest

from unladen.backends._gpu.pending import Pending


@dataclass
class Work:
    """Work of a test; two are equal. ``meanwhile`` is done while the device is asked."""

    is_over: bool = False
    is_started: bool = True
    meanwhile: Callable[[], object] | None = None

    @property
    def is_done(self) -> bool:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            thread = Thread(target=meanwhile)
            thread.start()
            thread.join(60)
            assert not thread.is_alive(), "the other thread waits for a lock"
        return self.is_over


def kept(pending: Pending[Work], among: list[Work]) -> list[bool]:
    """Whether each is still kept."""
    found = []
    while (oldest := pending.oldest()) is not None:
        found.append(oldest)
        pending.drop(oldest)
    return [any(each is one for one in found) for each in among]


def test_work_stays_until_it_and_what_was_before_it_are_done() -> None:
    pending: Pending[Work] = Pending()
    a, b, c = Work(), Work(is_over=True), Work()
    for work in (a, b):
        pending.add(work)
    assert pending.oldest() is a and pending.newest() is b
    a.is_over = True
    pending.add(c)
    noted: list[Work] = []

    def note(done: Work) -> None:
        assert pending.oldest() is done
        noted.append(done)
    pending.drop_done(note)
    assert noted[0] is a and noted[1] is b and pending.oldest() is pending.newest() is c
    pending.drop(a)  # again
    assert kept(pending, [a, b, c]) == [False, False, True]
    assert pending.oldest() is pending.newest() is None


@pytest.mark.parametrize("is_over", [True, False])
def test_only_what_was_asked_is_dropped(is_over: bool) -> None:
    """Another thread drops the work that this one asks about, and adds some."""
    pending: Pending[Work] = Pending()
    b, c = Work(), Work()
    a = Work(is_over=is_over, meanwhile=lambda: pending.add(b))
    pending.add(a)
    pending.drop_done()
    pending.add(c)
    assert kept(pending, [a, b, c]) == [not is_over, True, True]


def test_the_last_one_may_be_gone() -> None:
    pending: Pending[Work] = Pending()
    pending.add(Work(is_over=True, meanwhile=pending.drop_done))
    pending.drop_done()
    assert pending.oldest() is None


@pytest.mark.parametrize("is_started", [True, False])
def test_an_exception_at_the_start(is_started: bool) -> None:
    """As a signal's handler raises it, before or after the device has the work."""
    pending: Pending[Work] = Pending()
    work = Work(is_started=False)

    def start() -> None:
        with pending.starting(work):
            assert pending.newest() is work
            work.is_started = is_started
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        start()
    assert kept(pending, [work]) == [is_started]
