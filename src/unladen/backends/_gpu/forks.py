"""Drivers, forked children, and the interpreter's end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeVar

from unladen.errors import BackendNotInitialised

T = TypeVar("T")


class Process:
    """The process that began to use the driver ``what``."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.id: int | None = None

    def begin(self) -> None:
        """From the first call on, the driver belongs to the process of that call."""
        if self.id is None:
            self.id = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return self.id == os.getpid()

    def check(self) -> None:
        """Raise :class:`BackendNotInitialised` where another process began to use the driver. In a
        forked child drivers would wait for threads that only the parent has."""
        self.begin()
        if not self.is_here:
            raise BackendNotInitialised(
                f"{self.what} was in use in the process that this one was forked from",
                hint="compute on the CPU here, or start processes by spawn instead of fork")

    def frees(self, free: Callable[[T], None]) -> Callable[[T], None]:
        """Decorates a ``__del__`` that gives something back to the driver, as
        :func:`unless_ending`. In a forked child it does nothing: what was made belongs to the
        parent."""
        getpid = os.getpid

        def free_here(made: T) -> None:
            if self.id == getpid():
                free(made)
        return unless_ending(free_here)


def unless_ending(free: Callable[[T], None]) -> Callable[[T], None]:
    """Decorates a ``__del__`` that does nothing once the interpreter ends.

    The driver frees all with the process, and Python may have cleared the globals that ``free``
    needs. So what the decorator itself calls is in its closure.
    """
    is_finalizing = sys.is_finalizing

    def free_now(made: T) -> None:
        if not is_finalizing():
            free(made)
    return free_now
