"""The worker's end of the connection to its server."""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence

from unladen.server.ipc import READ_BYTES, BrokenFrame, Frames, Message, Outbox
from unladen.server.worker.guard import ORPHANED

DEAF = 4
"""The exit status of a worker whose reading thread failed."""


class Link:
    """Reads from the file descriptor ``read_fd`` and writes to ``write_fd``.

    Nobody needs a worker whose server is gone: where the connection ends, the process ends at once,
    whatever its other threads do.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._outbox = Outbox(write_fd)
        self._frames = Frames()
        self._early: deque[Message] = deque()

    @classmethod
    def of_standard_streams(cls) -> Link:
        """The link over this process's standard input and output. What other code prints goes to
        the standard error from here on."""
        read_fd, write_fd = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        return cls(read_fd, write_fd)

    def send(self, messages: Sequence[Message]) -> None:
        """Send ``messages`` in one frame."""
        try:
            self._outbox.send(messages)
        except OSError:
            os._exit(ORPHANED)

    def first(self) -> Message:
        """The first message. Call it before :meth:`listen`."""
        while not self._early:
            self._early.extend(self._read())
        return self._early.popleft()

    def listen(self, handle: Callable[[Message], None]) -> None:
        """Start the thread that gives each message to ``handle``."""
        threading.Thread(target=self._listen, args=(handle,), name="unladen-link",
                         daemon=True).start()

    def wait(self) -> None:
        """Wait until the server ends this process."""
        threading.Event().wait()

    def _listen(self, handle: Callable[[Message], None]) -> None:
        try:
            while self._early:
                handle(self._early.popleft())
            while True:
                for message in self._read():
                    handle(message)
        except BaseException as error:  # noqa: BLE001  # a worker that hears nothing is of no use
            traceback.print_exception(error)
            os._exit(DEAF)

    def _read(self) -> list[Message]:
        with contextlib.suppress(OSError, BrokenFrame):  # there is nobody to tell
            data = os.read(self._read_fd, READ_BYTES)
            if data:
                return self._frames.feed(data)
        os._exit(ORPHANED)
