"""The driver's context of one card: what all logical devices on the card share."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from ctypes import c_int, c_size_t, c_void_p
from typing import Any, Protocol

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.driver import Driver
from unladen.backends._gpu.cuda_like.found import Found
from unladen.backends._gpu.cuda_like.vendor import (
    ALREADY_ALLOWED,
    NO_PEERS,
    NOT_READY,
    TOO_MANY_PEERS,
)
from unladen.errors import DeviceLost, UnladenError

CHECK_S = 0.01
"""Seconds between two looks at the other cards while the host waits for this one."""
PAUSE, MOST_PAUSE_S = 0.05, 1e-3
"""While it waits so, the host sleeps for this share of the time that it has waited, and at most for
so many seconds: what it notices late doesn't count beside the waiting."""
RESTART = "restart the process: its use of the card has failed before"
"""The hint after a card was lost more than once."""


class Watched(Protocol):
    """What may keep a card waiting for another one for ever."""

    def check(self) -> None:
        """Raise :class:`DeviceLost` or the like, and end the waiting, where one has failed."""

    def end(self, why: str) -> None:
        """End the waiting, as soon as no other thread starts work: a card is lost, as ``why``
        says."""


class Context:
    """The primary context of the card ``found``, which other libraries of the process share.

    Objects of the driver are freed when nothing refers to them, which may be at any moment, in any
    thread. A recording of launches must not be disturbed by that, so :meth:`later` waits for its
    end.

    A context that is lost calls the driver no more: another one may have taken its place, with its
    handle. ``n_lost``: how many contexts of the card were lost before.
    """

    def __init__(self, driver: Driver, found: Found, n_lost: int = 0) -> None:
        self.driver, self.found, self.n_lost = driver, found, n_lost
        self.name = f"{driver.vendor.backend} card {found.number}"
        self.is_lost, self._lost_by = False, ""
        self.promised_bytes = 0
        """Bytes by which memory may still grow."""
        self.has_pages = False
        """Whether memory has been seen to grow."""
        self._recording = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._reached: set[int] = set()
        self.watched: weakref.WeakSet[Watched] = weakref.WeakSet()
        """Groups of cards that add up values: this card waits there for the others."""
        self.numbers = itertools.count()
        """Numbers of events, in the order in which they are recorded."""
        self._interrupted: tuple[int, UnladenError] | None = None
        handle = c_void_p()
        self.call("retain", ctypes.byref(handle), found.handle)
        number = driver.vendor.contexts_are_numbers
        self.handle: Any = c_int(found.handle) if number else handle
        """What functions take for the context."""

    @property
    def is_usable(self) -> bool:
        """Whether its objects can be used and freed: it isn't lost, and this process made it."""
        return not self.is_lost and self.driver.process.is_here

    def call(self, name: str, *arguments: Any, device: str = "", requested: int = 0, free: int = 0
             ) -> None:
        """Call a function of the driver; raises like :meth:`Driver.call`."""
        if self.is_lost:
            raise self._gone(device)
        number = self.driver.functions[name](*arguments)
        if number:
            raise self.error(name, number, device=device, requested=requested, free=free)

    def error(self, name: str, number: int, *, device: str = "", requested: int = 0, free: int = 0
              ) -> UnladenError:
        """The exception for an error; one that ends the context is remembered."""
        found = self.driver.error(device or self.name, name, number, requested=requested, free=free)
        if isinstance(found, DeviceLost):
            found.hint = RESTART if self.n_lost else found.hint
            self.lose(found.message)
        return found

    def lose(self, why: str) -> None:
        """The card takes no more work. Other cards that wait for it wait no longer."""
        if not self.is_lost:
            self.is_lost, self._lost_by = True, why
            for each in list(self.watched):
                each.end(why)

    def _gone(self, device: str) -> DeviceLost:
        hint = RESTART if self.n_lost else "load the model again"
        return DeviceLost(f"{device or self.name} was lost: {self._lost_by}", hint=hint)

    def enter(self) -> None:
        """Make this the context of the thread's calls."""
        self.call("set_current", self.handle)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This is the context of the thread's calls meanwhile; afterwards it is the one before,
        also another library's. What frees objects may interrupt a thread between any two of its
        calls."""
        before = type(self.handle)()
        self.driver.functions["current"](ctypes.byref(before))
        self.enter()
        try:
            yield
        finally:
            self.driver.functions["set_current"](before)

    def reset(self) -> None:
        """Destroy the context after it was lost, so that the card can be used again. Raises
        :class:`UnladenError`."""
        failed = self.driver.functions["reset"](self.found.handle)
        # It may tell the error by which the card was lost; the next call says whether that is over.
        if failed and failed not in self.driver.vendor.lost:
            error = self.driver.error(self.name, "reset", failed)
            raise DeviceLost(error.message, hint=RESTART)
        self.driver.functions["release"](self.found.handle)

    def free_bytes(self) -> int:
        """Bytes that can be allocated now. What memory may still grow by isn't free."""
        self.collect()
        self.enter()
        free, total = c_size_t(0), c_size_t(0)
        self.call("memory_info", ctypes.byref(free), ctypes.byref(total))
        return max(0, free.value - self.promised_bytes)

    def poll(self, stream: c_void_p) -> None:
        """Raise :class:`DeviceLost` where work on ``stream`` has failed."""
        if self.is_lost:
            raise self._gone("")
        number = self.driver.functions["query_stream"](stream)
        if number not in (0, NOT_READY):
            raise self.error("query_stream", number)

    def watch(self, event: c_void_p) -> None:
        """Return when it takes no other card to bring about ``event``. Raises what a group of cards
        raises that has failed, which then keeps this card waiting no longer."""
        if not self.watched:
            return
        begin = looked = time.monotonic()
        while not self.is_lost and self.driver.functions["query_event"](event) == NOT_READY:
            now = time.monotonic()
            if now - looked > CHECK_S:
                try:
                    for each in list(self.watched):
                        each.check()
                finally:
                    self.enter()
                looked = now
            time.sleep(min((now - begin) * PAUSE, MOST_PAUSE_S))

    def interrupt(self, error: UnladenError) -> None:
        """What was started so far ends without the values of other cards, because of ``error``."""
        self._interrupted = next(self.numbers), error

    def check_event(self, number: int) -> None:
        """Raise the error that interrupted the work before the event with this number."""
        if self._interrupted is not None and number < self._interrupted[0]:
            error = self._interrupted[1]
            raise type(error)(error.message, hint=error.hint)

    def reach(self, other: Context) -> None:
        """Let copies from ``other`` go directly where the cards can do that; otherwise the driver
        takes them through the host."""
        number, can = other.found.number, c_int(0)
        if number in self._reached:
            return
        self._reached.add(number)
        self.call("can_access", ctypes.byref(can), self.found.handle, other.found.handle)
        if can.value:
            failed = self.driver.functions["enable_access"](other.handle, 0)
            if failed not in (0, ALREADY_ALLOWED, NO_PEERS, TOO_MANY_PEERS):
                raise self.error("enable_access", failed)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Nothing is freed meanwhile."""
        with self._recording:
            yield
        self.collect()

    def later(self, work: Callable[[], object]) -> None:
        """Do ``work``, which frees something, at once or after a recording."""
        self._waiting.append(work)
        self.collect()

    def collect(self) -> None:
        """Free what waits for it, unless something is recorded. That may happen between any two
        calls of the thread, so its context is the same afterwards."""
        while self._waiting and self._recording.acquire(blocking=False):
            try:
                with self.entered() if self.is_usable else contextlib.nullcontext():
                    while self._waiting:
                        work = self._waiting.popleft()
                        if self.is_usable:
                            self.enter()
                            work()
            except UnladenError as error:
                self.lose(error.message)  # a card that can't free memory takes no more work
            finally:
                self._recording.release()

    @forks.unless_ending
    def __del__(self) -> None:
        if self.is_usable and hasattr(self, "handle"):
            self.collect()
            self.driver.functions["release"](self.found.handle)
