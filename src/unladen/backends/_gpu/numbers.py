"""Numbers of devices, also beyond those that are there."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import TypeVar

log = logging.getLogger("unladen")

T = TypeVar("T")


def numbered(backend: str, here: Sequence[T], number: int) -> T:
    """Which of the devices that are ``here`` has this ``number``. Numbers beyond the last device
    start again at the first, so that one can be several devices of ``backend``; a warning says
    that, once for each number."""
    if number >= len(here):
        _tell(backend, number, len(here))
    return here[number % len(here)]


@functools.cache
def _tell(backend: str, number: int, n: int) -> None:
    there = "1 device is here" if n == 1 else f"{n} devices are here"
    log.warning("%s:%d is %s:%d again: %s", backend, number, backend, number % n, there)
