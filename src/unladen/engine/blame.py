"""Whose fault it is: what fails while the engine works for one request ends that request alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from unladen.engine.request import Request
from unladen.errors import Cancelled, DeviceLost, OutOfMemory

_T = TypeVar("_T")

SHARED = (OutOfMemory, Cancelled, DeviceLost)
"""What says something about the step as a whole, whichever request it was noticed at."""


class Blamed(Exception):
    """The bookkeeping for ``request`` failed half-way, because of what this was raised from. No
    count of the cache can be trusted any more. It never leaves the engine."""

    def __init__(self, request: Request) -> None:
        super().__init__("a request's bookkeeping failed")
        self.request = request


def keep(request: Request, function: Callable[..., _T], *args: object) -> _T:
    """``function(*args)``, a change to the books for ``request``; raises :class:`Blamed`."""
    try:
        return function(*args)
    except SHARED:
        raise
    except Exception as error:
        raise Blamed(request) from error


def isolate(request: Request, action: Callable[[], object]) -> None:
    """Do ``action``, which only touches ``request``; what it raises is that request's error.

    Of what isn't an :class:`Exception` nobody can say in the main thread whether ``action`` raised
    it or a signal handler did, for whoever called: there it is raised, and ``request`` goes on.
    """
    try:
        action()
    except Exception as error:  # noqa: BLE001  # steps of the caller may raise anything
        request.fail(error)
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            raise
        request.fail(error)
