"""A thread that runs steps for coroutines, which must not block their own thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from unladen.errors import Cancelled

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Stepper(Executor):
    """An executor of one thread, started at the first use in each process: a forked child doesn't
    have its parent's thread."""

    def __init__(self) -> None:
        self._is_shut = False
        self._start()

    def _start(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="unladen")
        self._process = os.getpid()

    def submit(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
               ) -> Future[_T]:
        """See :class:`concurrent.futures.Executor`; raises :class:`Cancelled` after
        :meth:`shutdown`."""
        if self._process != os.getpid():
            self._start()
        try:
            return self._threads.submit(function, *args, **kwargs)
        except RuntimeError as error:
            if self._is_shut:
                raise Cancelled("the model was closed",
                                hint="close it after its last request has ended") from error
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See :class:`concurrent.futures.Executor`."""
        self._is_shut = True
        if self._process == os.getpid():  # a forked child has no thread to end
            self._threads.shutdown(wait, cancel_futures=cancel_futures)
