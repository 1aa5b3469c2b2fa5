"""Drivers in a forked child."""

from __future__ import annotations

import os

from unladen.errors import BackendNotInitialised


def check_process(what: str, process: int) -> None:
    """Raise :class:`BackendNotInitialised` where this isn't ``process``, which began to use the
    driver ``what``. In a forked child drivers would wait for threads that only the parent has."""
    if process != os.getpid():
        raise BackendNotInitialised(
            f"{what} was in use in the process that this one was forked from",
            hint="compute on the CPU here, or start processes by spawn instead of fork")
