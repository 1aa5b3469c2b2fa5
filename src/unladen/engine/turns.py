"""Gives one thread at a time the right to run an engine's steps, or to change what they use.

A thread that is in a step already would wait for itself, so it is refused. That happens when a
sampler step, a callback, a signal handler, or a finalizer that the garbage collector runs calls the
model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from unladen.errors import ReentrantCall

_T = TypeVar("_T")


class Turns:
    """The turns of one engine. A thread that runs steps lets visitors go first."""

    # Locks are taken by "with" alone: an interrupt after acquire() would leave them locked.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._visitors: set[object] = set()
        # Thread objects, not thread ids: a forked child gives the same ids to other threads.
        self._inside: set[threading.Thread] = set()

    @property
    def is_running(self) -> bool:
        """Whether a thread has a turn."""
        return self._lock.locked()

    @property
    def is_visited(self) -> bool:
        """Whether a thread waits to do something between two steps."""
        return bool(self._visitors)

    @property
    def is_taken(self) -> bool:
        """Whether a thread has a turn or waits for one between two steps."""
        return self.is_running or self.is_visited

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread has a turn, further up its stack."""
        return self._lock.locked() and threading.current_thread() in self._inside

    def refuse_reentrance(self) -> None:
        """Raise :class:`ReentrantCall` if the turn is the calling thread's own."""
        if self.is_mine:
            raise ReentrantCall(
                "the model was called from inside one of its own steps, by the same thread",
                hint="a sampler step, a constraint, a callback, a signal handler or a finalizer "
                     "did it: call the model after the step, or another model")

    def take(self, action: Callable[[], _T]) -> _T:
        """Run ``action`` in a turn of the calling thread, and return its result."""
        thread = threading.current_thread()
        is_outermost = thread not in self._inside
        try:
            self._inside.add(thread)
            with self._lock:
                return action()
        finally:
            if is_outermost:
                self._inside.discard(thread)

    def visit(self, action: Callable[[], _T]) -> _T:
        """:meth:`take` a turn before the thread that runs steps goes on; raises
        :class:`ReentrantCall`."""
        self.refuse_reentrance()
        visitor = object()
        try:
            self._visitors.add(visitor)
            return self.take(action)
        finally:
            self._visitors.discard(visitor)

    def renew(self) -> None:
        """In a forked child: forget the turns of the parent's threads, which don't exist here."""
        self._lock = threading.Lock()
        self._visitors.clear()
        self._inside.clear()
