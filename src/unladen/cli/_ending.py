"""Ends a process of the command line: exit codes, and the lines that report an error."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from enum import IntEnum
from types import FrameType
from typing import Final

import typer

from unladen.cli._table import paragraph
from unladen.cli._text import visible
from unladen.discover import reason
from unladen.errors import InvalidArgument, UnladenError


class Code(IntEnum):
    """Every exit code; :data:`MEANINGS` says what each stands for."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Final[Mapping[Code, str]] = {
    Code.DONE: "All went well, and all output was written.",
    Code.FAILED: "An error: one line on stderr says what and where, a second one what to try. "
                 "Without a line: the reader of stdout left before all was written.",
    Code.MISUSED: "The command line can't be understood: no such command or option, an argument "
                  "too few or too many, a value of the wrong kind. Nothing was done.",
    Code.HUNG_UP: "The terminal was closed (SIGHUP).",
    Code.INTERRUPTED: "Ctrl-C (SIGINT).",
    Code.TERMINATED: "The process was told to end (SIGTERM).",
}
"""What an exit code of ``unladen`` stands for."""


class Misused(InvalidArgument):
    """A command line that can't be understood."""


class StdoutFailed(UnladenError):
    """Writing to stdout failed; ``number`` is the system's error number."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"can't write to stdout: {reason}")
        self.number = number


class Ended(KeyboardInterrupt):
    """Signal ``number`` asks the process to end. It is a KeyboardInterrupt, so code that cleans up
    after Ctrl-C does so now, too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP raise :class:`Ended`, unless they are ignored, as under nohup. A
    second signal ends the process at once."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise_ended)


def _raise_ended(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Ended(number)


def is_usage(error: BaseException) -> bool:
    """Whether ``error`` means that typer or its parser can't understand the command line."""
    return isinstance(error, _UsageError)


_UsageError: Final = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")
# The parser is click. Whether it is a part of typer or a separate package depends on typer's
# version.


def code_of(error: BaseException) -> Code:
    """The exit code that ``error`` leads to."""
    if isinstance(error, Ended):
        return Code.HUNG_UP if error.number != signal.SIGTERM else Code.TERMINATED
    if isinstance(error, KeyboardInterrupt):
        return Code.INTERRUPTED
    return Code.MISUSED if isinstance(error, Misused) or is_usage(error) else Code.FAILED


def say(error: BaseException, columns: int | None = None) -> None:
    """Print ``error`` to stderr in one line, and its hint in a second one; in lines of at most
    ``columns`` where that is given. Nothing is printed for a signal, or where the reader of stdout
    has left."""
    if isinstance(error, KeyboardInterrupt) or (
            isinstance(error, StdoutFailed) and error.number in (errno.EPIPE, errno.ESHUTDOWN)):
        return
    message, hint = _words(error)
    # Messages quote text from files, which may contain control characters.
    lines = [f"error: {visible(message)}", *([f"hint: {visible(hint)}"] if hint else [])]
    if columns is not None:
        lines = [row for line in lines for row in paragraph(line, columns, "  ")]
    print("\n".join(lines), file=sys.stderr)


def _words(error: BaseException) -> tuple[str, str]:
    if isinstance(error, UnladenError):
        return error.message, error.hint
    if is_usage(error):
        return _misuse(error)
    if isinstance(error, MemoryError):
        return "out of memory", "use a smaller context_size or batch_size, or a smaller model"
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return f"{where}{error.strerror or error}", ""
    return (f"unexpected {reason(error)}",
            "this is a fault of unladen; --debug shows where, for a report")


def _misuse(error: BaseException) -> tuple[str, str]:
    """The message and hint for typer's error, in this package's form."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "unladen"
    option = getattr(error, "option_name", None)
    message = str(getattr(error, "message", "") if option
                  else error.format_message())  # type: ignore[attr-defined]
    message = " ".join(message.rstrip(".").split())
    hint = f"{path} -h lists what there is"
    if option and message.startswith("No such option") and context is not None:
        known = [o for p in context.command.params for o in (*p.opts, *p.secondary_opts)]
        if near := get_close_matches(str(option), [o for o in known if o.startswith("--")],
                                     n=1):
            hint = f"did you mean {near[0]}? {hint}"
    return message[:1].lower() + message[1:], hint
