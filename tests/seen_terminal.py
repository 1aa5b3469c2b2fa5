"""A terminal with a program in it, and what a person would see there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyte

PATIENCE = 300.0
"""Seconds that something may take on a busy machine."""
PROMPT = ">>> "
"""What stands before a message of a conversation."""


class SeenTerminal:
    """Runs ``command`` in a terminal of ``columns`` and ``lines``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], columns: int = 80,
                 lines: int = 24) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=5000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._primary, self.secondary = pty.openpty()
        self._set_size(columns, lines)
        self.process = subprocess.Popen(
            list(command), stdin=self.secondary, stdout=self.secondary, stderr=self.secondary,
            env=dict(environment), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._primary, text.encode())

    def ask(self, text: str) -> str:
        """Type ``text`` and Enter at the prompt; returns what is there when the next prompt comes,
        from the prompt on."""
        self.wait_for_prompt()
        n = len(self.text().rstrip().split("\n"))
        self.type(text + "\r")
        self.wait(lambda: self.is_at_prompt() and len(self.text().rstrip().split("\n")) > n)
        return "\n".join(self.text().rstrip().split("\n")[n - 1:])

    def wait_for_prompt(self) -> None:
        """Wait until the program asks for a message, with an empty line or a draft."""
        self.wait(self.is_at_prompt)

    def is_at_prompt(self) -> bool:
        """Whether the cursor is right behind the prompt."""
        line = self.screen.display[self.screen.cursor.y]
        return line.startswith(PROMPT) and self.screen.cursor.x == len(PROMPT)

    def wait_for(self, text: str) -> None:
        """Wait until ``text`` is on the screen or above it."""
        self.wait(lambda: text in self.text())

    def wait(self, is_there: Callable[[], bool]) -> None:
        """Wait until ``is_there``."""
        end = time.monotonic() + PATIENCE
        while not is_there():
            left = end - time.monotonic()
            assert left > 0, f"it didn't come:\n{self.text()}"
            if not self._read(min(left, 0.1)) and self.process.poll() is not None:
                assert is_there(), f"the program has ended:\n{self.text()}"
                return

    def text(self) -> str:
        """All rows, also those that have left the screen at its top."""
        above = ["".join(row[x].data for x in range(self.screen.columns)).rstrip()
                 for row in self.screen.history.top]
        return "\n".join([*above, *(row.rstrip() for row in self.screen.display)])

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, as a user pulls at the window's corner."""
        self._set_size(columns, lines)
        self.screen.resize(lines, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def end(self) -> int:
        """Wait for the end of the program; returns its exit code."""
        self.wait(lambda: self.process.poll() is not None)
        while self._read(0.05):
            pass
        return self.process.wait()

    def is_cooked(self) -> bool:
        """Whether the terminal is as a shell wants it: it echoes, and edits lines."""
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        return termios.tcgetattr(self.secondary)[3] & wanted == wanted

    def __enter__(self) -> SeenTerminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._primary)
        os.close(self.secondary)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._primary], [], [], seconds)[0]:
            return False
        came = os.read(self._primary, 1 << 16)
        self.raw += came
        self._stream.feed(came)
        return True

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._primary, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
