"""Work under way on a device, and what it needs of the host until it is done."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Work(Protocol):
    """Work that a device is given. It refers to the host's memory that it needs."""

    @property
    def is_started(self) -> bool:
        """Whether the device has it."""

    @property
    def is_done(self) -> bool:
        """Whether it is done, or has failed. Doesn't wait."""


W = TypeVar("W", bound=Work)


class Pending(Generic[W]):
    """Keeps work of one queue from its start on until it is done. All models on a device share it,
    each from threads of its own.

    Asking a driver lets other threads run, which drop work and add some. So nothing is asked under
    the lock, and only what was asked is dropped.
    """

    def __init__(self) -> None:
        # A signal's handler may come back here in the thread that it interrupts.
        self._lock = threading.RLock()
        self._all: deque[W] = deque()

    @contextmanager
    def starting(self, work: W) -> Iterator[None]:
        """Start ``work`` within this. It is kept before it starts, since a signal's handler may
        raise an exception right after the start. What isn't started in the end is dropped."""
        try:
            self.add(work)
            yield
        finally:
            if not work.is_started:
                self.drop(work)

    def add(self, work: W) -> None:
        """Keep ``work``."""
        with self._lock:
            self._all.append(work)

    def drop(self, work: W) -> None:
        """Keep ``work`` no longer; another thread may have dropped it before."""
        with self._lock:
            if work in self._all:
                self._all.remove(work)

    def drop_done(self, note: Callable[[W], object] | None = None) -> None:
        """Drop the oldest work as far as it is done. ``note`` is called with each before it goes,
        maybe by several threads."""
        while (oldest := self.oldest()) is not None and oldest.is_done:
            if note is not None:
                note(oldest)
            self.drop(oldest)

    def oldest(self) -> W | None:
        """The work that was added first of what is kept; None if nothing is."""
        with self._lock:
            return self._all[0] if self._all else None

    def newest(self) -> W | None:
        """The work that was added last of what is kept; None if nothing is."""
        with self._lock:
            return self._all[-1] if self._all else None
