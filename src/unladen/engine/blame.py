"""An error that occurs while the engine works for one request ends that request alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from unladen.engine.request import Request
from unladen.errors import Cancelled, DeviceLost, OutOfMemory

_T = TypeVar("_T")

SHARED = (OutOfMemory, Cancelled, DeviceLost)
"""Errors of a whole step, even where they occur during work for one request."""


class Blamed(Exception):
    """``error`` interrupted the bookkeeping for ``request``, so no count of the cache can be
    trusted any more. The engine catches this exception; callers never see it."""

    def __init__(self, request: Request, error: Exception) -> None:
        super().__init__("a request's bookkeeping failed")
        self.request = request
        self.error = error


def blame(request: Request, error: Exception) -> Exception:
    """The exception to raise where the bookkeeping for ``request`` raised ``error``."""
    return error if isinstance(error, SHARED) else Blamed(request, error)


def keep(request: Request, function: Callable[..., _T], *args: object) -> _T:
    """Call ``function``, which changes the bookkeeping for ``request``, and return its result. Its
    exception becomes that of :func:`blame`. Code that runs for each token repeats these lines,
    because a call costs more than the lines do."""
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  # blame() names the request
        raise blame(request, error) from None


def charge(request: Request, error: BaseException) -> None:
    """End ``request`` with ``error``, which was just caught in work for this request alone.

    A KeyboardInterrupt or SystemExit in the main thread is raised again, and ``request`` goes on: a
    signal handler may have raised it, and that looks the same as code of the request raising it.
    """
    if (not isinstance(error, Exception)
            and threading.current_thread() is threading.main_thread()):
        raise error
    request.fail(error)
