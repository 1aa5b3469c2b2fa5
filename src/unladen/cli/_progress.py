"""Shows progress on one line of the terminal, which is erased at the end."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from unladen.cli._text import visible

if TYPE_CHECKING:
    from unladen.types import LoadProgress

SHORT_S: Final = 0.5
"""Seconds after which a line is shown. Shorter work shows none and doesn't import rich."""
EVERY_S: Final = 0.1
"""Seconds between two changes of the line at least."""

WIDE_ENOUGH: Final = 60
"""Columns of a terminal that has room for a bar beside the text."""

_OPEN: Final[ContextVar[contextlib.ExitStack | None]] = ContextVar("open bars", default=None)


def wanted() -> bool:
    """Whether stderr is a terminal that can erase a line."""
    return (sys.stderr is not None and sys.stderr.isatty()
            and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"))


@contextlib.contextmanager
def bars_end_here() -> Iterator[None]:
    """Close every bar that is opened inside, also after an exception, before the error is shown."""
    with contextlib.ExitStack() as stack:
        token = _OPEN.set(stack)
        try:
            yield
        finally:
            _OPEN.reset(token)


class Bar:
    """A line that shows the progress of ``what``; nothing unless :func:`wanted`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begin = time.monotonic()
        self._shown = 0.0
        self._line: Any = None
        self._is_open = wanted()
        stack = _OPEN.get()
        if stack is not None and self._is_open:
            stack.callback(self.close)

    def __call__(self, done: float, total: float | None, text: str = "") -> None:
        """Show ``done`` of ``total`` (None: the total is unknown), followed by ``text``."""
        now = time.monotonic()
        if not self._is_open or now - self._begin < SHORT_S or now - self._shown < EVERY_S:
            return
        self._shown = now
        if self._line is None:
            self._line = _Line(self._what, self._begin, done, total)
        self._line.show(done, total, text)

    def close(self) -> None:
        """Erase the line."""
        self._is_open = False
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class _Line:
    """The line of a :class:`Bar`. rich draws it, without a thread of its own."""

    def __init__(self, what: str, begin: float, done: float, total: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.table import Column
        self._what, self._begin = what, begin
        text = TextColumn("{task.fields[text]}", markup=False,
                          table_column=Column(no_wrap=True, overflow="ellipsis"))
        # In a narrow terminal the line is one text without a bar, and only its end is cut off.
        self._is_wide = _columns() >= WIDE_ENOUGH
        before = (TextColumn("{task.description}", markup=False,
                             table_column=Column(no_wrap=True)),
                  BarColumn(bar_width=16), TaskProgressColumn()) if self._is_wide else ()
        self._progress = Progress(
            *before, text, console=Console(file=sys.stderr), transient=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False)
        self._task = self._progress.add_task(visible(what), total=total, text="")
        self._progress.update(self._task, completed=done)
        self._logs = _logs_above(self._progress.console)
        self._progress.start()

    def show(self, done: float, total: float | None, text: str) -> None:
        """See :class:`Bar`."""
        self._progress.console.width = _columns()
        seconds = time.monotonic() - self._begin
        left = f"{seconds * (total / done - 1):.0f} s left" if total and done else ""
        words = ", ".join(part for part in (left, text) if part)
        if not self._is_wide:
            share = f" {done / total:.0%}" if total else ""
            words = f"{self._what}{share}{', ' if words else ''}{words}"
        self._progress.update(self._task, completed=done, total=total, refresh=True,
                              text=visible(words))

    def close(self) -> None:
        """Erase the line; the next output begins where it was."""
        self._progress.stop()
        self._logs()


def _columns() -> int:
    """The columns that a line may use: those of the terminal, less room for ``^C`` after it."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        columns = 80  # a stream without a terminal's descriptor
    return max(20, columns - len("^C") - 1)


def _logs_above(console: Any) -> Callable[[], None]:
    """Print log lines above the bar from now on; returns a function that undoes this."""
    import logging

    from rich.file_proxy import FileProxy
    handlers = [h for h in logging.getLogger().handlers
                if isinstance(h, logging.StreamHandler) and h.stream is sys.stderr]
    streams = [h.setStream(FileProxy(console, sys.stderr)) for h in handlers]

    def undo() -> None:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)
    return undo


def loading_line() -> Callable[[LoadProgress], None] | None:
    """A function that shows the progress of loading and the time left; None where stderr isn't a
    terminal."""
    if not wanted():
        return None
    bar = Bar("loading")

    def show(now: LoadProgress) -> None:
        if now.done_bytes >= now.total_bytes:
            bar.close()
        else:
            bar(now.done_bytes, now.total_bytes, f"{now.total_bytes / 1e6:,.0f} MB")
    return show


class Download:
    """The progress of one download, used by the hub's client in place of tqdm: a :class:`Bar` if
    one is wanted, else nothing. ``n`` of ``total`` bytes have arrived."""

    def __init__(self, *args: object, desc: str | None = None, total: float | None = None,
                 initial: float = 0, **options: object) -> None:
        self.n: float = initial
        self.total = total
        self._bar = Bar(f"downloading {desc or ''}".rstrip())

    def update(self, n: float | None = 1) -> None:
        """``n`` more bytes have arrived."""
        self.n += n or 0
        self.refresh()

    def refresh(self, *args: object, **options: object) -> None:
        """Show the progress."""
        self._bar(self.n, self.total or None, f"{(self.total or self.n) / 1e6:,.0f} MB")

    def reset(self, total: float | None = None) -> None:
        """Start again at 0."""
        self.n, self.total = 0, total if total is not None else self.total

    def close(self) -> None:
        """Erase the line."""
        self._bar.close()

    def set_description(self, *args: object, **options: object) -> None:
        """Does nothing: the line shows the file's name already."""

    set_description_str = set_postfix = set_postfix_str = set_description

    def __enter__(self) -> Download:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
