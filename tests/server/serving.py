"""``unladen serve`` as a process."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 600.0
"""Seconds after which a test gives up. A busy machine takes a few."""
ENVIRONMENT = {**os.environ, "UNLADEN_DEVICES": "cpu"}
ENVIRONMENT.pop("UNLADEN_KEY", None)


class Served:
    """A process of ``unladen serve`` and what it says on stderr."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._log, self.process = log, process

    @property
    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> str:
        """What ``text``, a regular expression, finds in what is said; its group if it has one."""
        end = time.monotonic() + PATIENCE
        while (found := re.search(text, self.said)) is None:
            assert self.process.poll() is None and time.monotonic() < end, self.said
            time.sleep(0.02)
        return found[1] if found.re.groups else found[0]

    def end(self, number: int) -> tuple[int, float]:
        """Send a signal; the exit code, and the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        return code, time.monotonic() - began


@contextlib.contextmanager
def serving(folder: Path, *arguments: object, command: str = "serve", **environment: str
            ) -> Iterator[Served]:
    """``unladen serve`` with ``arguments``, or another ``command`` that serves."""
    log = folder / "stderr.txt"
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "unladen", command, *map(str, arguments), "--port", "0",
             "--threads", "1"], stderr=stderr, stdout=stderr, env={**ENVIRONMENT, **environment})
    try:
        yield Served(log, process)
    finally:
        process.kill()
        process.wait(PATIENCE)
