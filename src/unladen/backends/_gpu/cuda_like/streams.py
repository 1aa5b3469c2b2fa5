"""Streams, which do their work in order, and events, by which one waits for another."""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from ctypes import c_void_p

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.context import Context
from unladen.errors import UnladenError

log = logging.getLogger("unladen")

NON_BLOCKING, NO_TIMING = 1, 2
"""Flags of a stream that doesn't wait for other libraries' work, and of an event that keeps no
time."""


class Stream:
    """A stream of the context; ``device`` names its device in errors.

    Python may finalize what refers to one another in any order, so memory and events may outlive
    their stream: it is destroyed when its work is done, and to wait for it then is nothing.
    """

    def __init__(self, context: Context, device: str) -> None:
        self.context, self.device, self.handle = context, device, c_void_p()
        self._free: deque[c_void_p] = deque()
        context.call("stream", ctypes.byref(self.handle), NON_BLOCKING, device=device)

    def record(self) -> Event:
        """An event for all that was started on the stream so far."""
        try:
            handle = self._free.pop()
        except IndexError:
            handle = c_void_p()
            self.context.call("event", ctypes.byref(handle), NO_TIMING, device=self.device)
        event = Event(self, handle)
        self.context.call("record_event", handle, self.handle, device=self.device)
        return event

    def wait_for(self, event: Event) -> None:
        """What is started on this stream from now on begins after ``event``."""
        if event.stream is not self:
            self.context.call("wait_event", self.handle, event.handle, 0, device=self.device)

    def wait(self) -> None:
        """Wait until all work on the stream is done, or was given up with another card."""
        if not self.handle:
            return
        while self.context.watched:
            event = self.record()
            try:
                self.context.watch(event.handle)
                break
            except UnladenError as error:
                if self.context.is_lost:
                    raise
                log.debug("%s waits no longer: %s", self.device, error)
        self.context.call("sync_stream", self.handle, device=self.device)

    def take_back(self, handle: c_void_p) -> None:
        """Keep an event's handle for the next one: whoever waits for it has begun to."""
        if self.handle:
            self._free.append(handle)
        else:
            functions = self.context.driver.functions
            self.context.later(lambda: functions["destroy_event"](handle))

    @forks.unless_ending
    def __del__(self) -> None:
        if self.handle:
            self.context.later(self._destroy)

    def _destroy(self) -> None:
        self.wait()
        functions, handle, self.handle = self.context.driver.functions, self.handle, c_void_p()
        while self._free:
            functions["destroy_event"](self._free.pop())
        functions["destroy_stream"](handle)


class Event:
    """Something that a stream will have done."""

    def __init__(self, stream: Stream, handle: c_void_p) -> None:
        self.stream, self.handle = stream, handle
        self._number = next(stream.context.numbers)

    def wait(self) -> None:
        """Wait until it is done. Raises :class:`DeviceLost` and the like, also where another card
        is lost for which it waits itself."""
        context = self.stream.context
        context.enter()
        context.watch(self.handle)
        context.call("sync_event", self.handle, device=self.stream.device)

    def check(self) -> None:
        """Raise the error by which the work before it ended without the values of other cards."""
        self.stream.context.check_event(self._number)

    @forks.unless_ending
    def __del__(self) -> None:
        self.stream.take_back(self.handle)
