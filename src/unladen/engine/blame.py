"""An error that occurs while the engine works for one request ends that request alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from unladen.engine.request import Request
from unladen.errors import Cancelled, DeviceLost, OutOfMemory

_T = TypeVar("_T")

SHARED = (OutOfMemory, Cancelled, DeviceLost)
"""Errors of the step as a whole, whichever request they were noticed at."""


class Blamed(Exception):
    """The bookkeeping for ``request`` failed half-way, by ``error``. No count of the cache can be
    trusted any more. It never leaves the engine."""

    def __init__(self, request: Request, error: Exception) -> None:
        super().__init__("a request's bookkeeping failed")
        self.request = request
        self.error = error


def blame(request: Request, error: Exception) -> Exception:
    """What to raise where the bookkeeping for ``request`` raised ``error``."""
    return error if isinstance(error, SHARED) else Blamed(request, error)


def keep(request: Request, function: Callable[..., _T], *args: object) -> _T:
    """``function(*args)``, which changes the bookkeeping for ``request``; raises as :func:`blame`
    says. Code that runs for each token has these lines in place: a call costs more than they do."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  # blame() tells whose
        raise blame(request, error) from None


def charge(request: Request, error: BaseException) -> None:
    """Make ``error``, just caught, that of ``request``, for which alone something was done.

    A KeyboardInterrupt or SystemExit in the main thread is raised again, and ``request`` goes on:
    a signal handler may have raised it, which looks the same as a step of the request doing so.
    """
    if (not isinstance(error, Exception)
            and threading.current_thread() is threading.main_thread()):
        raise error
    request.fail(error)
