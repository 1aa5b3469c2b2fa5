"""An answer that is shown while another thread writes it."""

from __future__ import annotations

import logging
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyte
import pytest

from unladen.chat.deltas import ContentDelta, Delta
from unladen.cli import _ending as ending
from unladen.cli._talk import answers
from unladen.cli._talk.answers import answered, ctrl_c_calls
from unladen.cli._talk.screen import PlainScreen, RichScreen


class Terminal:
    """stdout and stderr, both in one terminal."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(60, 30)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("it has no number")

    def rows(self) -> list[str]:
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows


class Answer:
    """A stream of ``deltas``. A function among them is called in the thread that writes."""

    result: Any = "the answer"

    def __init__(self, *deltas: Any) -> None:
        self._deltas = deltas
        self.closed = threading.Event()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *rest: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed.set()

    def __iter__(self) -> Iterator[Delta]:
        for delta in self._deltas:
            if callable(delta):
                delta()
            else:
                yield delta


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal to which this process is connected. Called in the test itself: pytest sets its own
    streams after fixtures."""
    made = Terminal()
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, made)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "30")
    return made


def test_log_lines_stand_between_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    there = terminal(monkeypatch)
    handler = logging.StreamHandler(sys.stderr)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    log = logging.getLogger("unladen")
    long = "words of a paragraph that has several rows on this terminal " * 2

    def warn() -> None:
        log.warning("memory is short")

    stream: Any = Answer(ContentDelta(f"First.\n\n{long}"), warn, ContentDelta("and its end."))
    assert answered(lambda: stream, RichScreen()) == "the answer"
    rows = there.rows()
    assert rows.count("memory is short") == 1 and rows[0] == "First."
    rows.remove("memory is short")
    assert " ".join(rows[2:]) == f"{long}and its end."
    assert handler.stream is sys.stderr


class Slow:
    """A screen on which drawing takes a second; between two deltas it is half a second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.n_drawn = self.n_new = 0

    def show(self, delta: Delta) -> None:
        self.now += 0.5
        self.n_new += 1

    def draw(self) -> None:
        self.now += 1
        self.n_drawn += 1
        self.n_new = 0


class Scripted:
    """Events that come one by one; None: for a while there are none."""

    def __init__(self, *events: Any) -> None:
        self._events = list(events)

    def empty(self) -> bool:
        return True

    def get(self, timeout: float) -> Any:
        event = self._events.pop(0)
        if event is None:
            raise queue.Empty
        return event


def test_drawing_takes_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: Any = Slow()
    monkeypatch.setattr(answers, "time", SimpleNamespace(perf_counter=lambda: slow.now))
    deltas = [ContentDelta("a")] * 60
    events: Any = Scripted(*deltas, answers.DONE)
    answers._show(Answer(), events, slow)  # type: ignore[arg-type]
    assert slow.now / 5 < slow.n_drawn <= slow.now / answers.DRAWING + 1
    events = Scripted(deltas[0], deltas[0], None, answers.DONE)
    answers._show(Answer(), events, slow)  # type: ignore[arg-type]
    assert not slow.n_new, "what isn't drawn at once is drawn in the next pause"


def test_an_error_of_the_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    there = terminal(monkeypatch)
    def fail() -> None:
        raise MemoryError("all gone")

    stream: Any = Answer(ContentDelta("Before"), fail)
    with pytest.raises(MemoryError, match="all gone"):
        answered(lambda: stream, RichScreen())
    assert there.rows() == ["Before"]
    assert stream.closed.is_set()


def test_ctrl_c_closes_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    there = terminal(monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    stream: Any = Answer()
    stream._deltas = (ContentDelta("Before"), lambda: signal.raise_signal(signal.SIGINT),
                      lambda: stream.closed.wait(300), ContentDelta(" after"))
    assert answered(lambda: stream, RichScreen()) == "the answer"
    assert there.rows() == ["Before after"]
    assert signal.getsignal(signal.SIGINT) is before
    with ctrl_c_calls(lambda: None):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ending.Ended(signal.SIGTERM)])
def test_a_signal_that_ends_the_program(error: BaseException, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe Ctrl-C is raised, and so is SIGTERM everywhere; the answer is cancelled."""
    stream: Any = Answer(ContentDelta("Before"))

    def show(*rest: object) -> None:
        raise error

    monkeypatch.setattr(answers, "_show", show)
    with pytest.raises(type(error)):
        answered(lambda: stream, PlainScreen(is_terminal=False))
    assert stream.closed.is_set()
