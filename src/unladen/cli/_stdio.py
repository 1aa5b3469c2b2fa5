"""stdin, stdout and stderr: an error of one of them ends the command with one line."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

from unladen.cli._ending import StdoutFailed

STDIN, STDOUT, STDERR = 0, 1, 2


class _Data(io.FileIO):
    """stdout. A failed write raises :class:`StdoutFailed`, so it isn't taken for another file's
    error."""

    def write(self, data: object) -> int:
        """See :class:`io.FileIO`."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
            raise StdoutFailed(error.errno or 0, reason) from None


class _Talk(io.FileIO):
    """stderr. A failed write is ignored, so that the command's result isn't lost with the message.
    """

    def write(self, data: object) -> int:
        """See :class:`io.FileIO`."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def take_over() -> None:
    """Replace Python's streams by these classes, where they are plain files. A stream that the
    caller has closed is opened again on the null device."""
    _fill_holes()
    sys.stdout = _over(sys.stdout, _Data, STDOUT)
    sys.stderr = _over(sys.stderr, _Talk, STDERR)


def _fill_holes() -> None:
    """Open the null device on closed descriptors 0 to 2. Otherwise the next file that is opened
    would get such a number, and text for stderr would be written into it."""
    for number in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(number)
        except OSError:
            # stdout stays an error to write to, as it was: its descriptor is read-only.
            opened = os.open(os.devnull, os.O_WRONLY if number == STDERR else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)


def _over(stream: TextIO | None, kind: type[io.FileIO], number: int) -> TextIO:
    if stream is not None and not _is_plain(stream, number):
        return stream
    assert stream is None or isinstance(stream, io.TextIOWrapper)
    raw = kind(number, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace" if number == STDERR else "replace",
        line_buffering=number == STDERR or raw.isatty(),
        write_through=stream.write_through if stream else False)


def _is_plain(stream: TextIO, number: int) -> bool:
    """Whether ``stream`` is Python's own over the descriptor ``number``; a Windows console isn't.
    """
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return (type(stream) is io.TextIOWrapper and type(raw) is io.FileIO
            and raw.fileno() == number)
