"""Lets a model answer in a thread of its own, so that Ctrl-C never breaks into its work."""

from __future__ import annotations

import contextlib
import io
import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from unladen.cli._talk import has_terminal

if TYPE_CHECKING:
    from unladen.api.chat_stream import ChatStream
    from unladen.chat.completion import ChatCompletion
    from unladen.cli._talk.screen import Screen

STOP, DONE = "stop", "done"
"""Messages beside deltas: Ctrl-C was pressed, and the answer has ended."""
WAIT_S: Final = 600.0
"""Seconds for which a program that is told to end waits for the step under way."""

LOOK_S: Final = 0.1
"""Seconds after which the main thread looks for signals at the latest, and draws what isn't drawn
yet. Where the system hands a signal to another thread, and on Windows, nothing wakes it."""

DRAWING: Final = 4
"""Drawing takes at most one part in this many of the time, because the model computes meanwhile. A
long table takes long to draw, and is drawn again as a whole while it grows."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A log line that came during an answer."""

    text: str


class Events(queue.SimpleQueue[Any]):
    """What the main thread waits for: deltas, log lines, an error, :data:`STOP`, :data:`DONE`."""


def answered(begin: Callable[[], ChatStream], screen: Screen) -> ChatCompletion:
    """The answer that ``begin`` begins, shown on ``screen`` while it is written. On a terminal
    Ctrl-C ends it early, elsewhere it is raised. Raises what the answer raises."""
    events = Events()
    with ctrl_c_calls(lambda: events.put(STOP)), _silent_keys(), _logs(events), begin() as stream:
        worker = threading.Thread(target=_read, args=(stream, events), daemon=True)
        worker.start()
        try:
            _show(stream, events, screen)
        finally:
            stream.close()
            worker.join(WAIT_S)
            screen.end()
        return stream.result


def _read(stream: ChatStream, events: Events) -> None:
    try:
        for delta in stream:
            events.put(delta)
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        events.put(error)
    else:
        events.put(DONE)


def _show(stream: ChatStream, events: Events, screen: Screen) -> None:
    due = 0.0
    while True:
        try:
            event = events.get(timeout=LOOK_S)
        except queue.Empty:
            screen.draw()
            continue
        if event is DONE:
            return
        if isinstance(event, BaseException):
            raise event
        if event is STOP:
            stream.close()
        elif isinstance(event, Logged):
            screen.aside(event.text)
        else:
            screen.show(event)
            start = time.perf_counter()
            if events.empty() and start >= due:  # else it is drawn with the next delta
                screen.draw()
                due = start + DRAWING * (time.perf_counter() - start)


@contextlib.contextmanager
def ctrl_c_calls(action: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls ``action`` if there is a person at a terminal."""
    if not has_terminal():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        action()
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _ToEvents(io.TextIOBase):
    """Log lines become events, so that the thread that draws the answer writes them."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def write(self, text: str) -> int:
        """See :class:`io.TextIOBase`."""
        self._events.put(Logged(text))
        return len(text)


@contextlib.contextmanager
def _logs(events: Events) -> Iterator[None]:
    """Log lines to stderr come to ``events`` where stderr is a terminal."""
    handlers = [h for h in logging.getLogger().handlers
                if isinstance(h, logging.StreamHandler) and h.stream is sys.stderr
                and sys.stderr.isatty()]
    before = [h.setStream(_ToEvents(events)) for h in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            handler.setStream(stream)
        while not events.empty():
            event = events.get()
            if isinstance(event, Logged):
                sys.stderr.write(event.text)


@contextlib.contextmanager
def _silent_keys() -> Iterator[None]:
    """Keys that are pressed during the answer don't appear in it. The editor gets them after it."""
    if sys.platform == "win32":  # it has no such setting
        yield
        return
    import termios
    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (OSError, ValueError, termios.error):
        yield  # stdin isn't a terminal
        return
    # NOFLSH: Ctrl-C doesn't drop what was typed before it.
    quiet = [*before[:3], before[3] & ~termios.ECHO | termios.NOFLSH, *before[4:]]
    termios.tcsetattr(number, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSANOW, before)
