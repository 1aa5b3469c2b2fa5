"""Starts ``unladen serve`` as a process of its own, and sees that nothing of it stays."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.hosting import is_alive, workers

PATIENCE = 600.0
"""Seconds that a server may take to start or to end on a busy machine. It needs one or two."""
WAIT = 0.02
"""Seconds between two looks."""
ENDED = 128 + signal.SIGTERM
"""The exit status of a server that was asked to end."""
ADDRESS = re.compile(r"^unladen serves .* at (http://\S+)$", re.M)
"""What the server says when it listens."""

Named = Mapping[str, object]


@dataclass(frozen=True)
class Served:
    """A server that runs: its ``address``, as "http://127.0.0.1:1", its process number and its
    ``log``."""

    address: str
    pid: int
    log: Path

    def workers(self) -> list[int]:
        """The process numbers of its workers."""
        return workers(self.pid)


@contextlib.contextmanager
def serving(*models: Named, within: Sequence[str] = (), status: int = ENDED, **settings: object
            ) -> Iterator[Served]:
    """A server of ``models``, each a ``[[models]]`` of its file, with ``settings`` as its
    ``[server]``. ``within``: a command that starts it by its arguments. At the end it must go when
    it is asked to, with the exit ``status``, and its workers with it. Skips where that can't be
    seen."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc, which Linux has")
    with tempfile.TemporaryDirectory() as folder:
        log, config = Path(folder) / "log", Path(folder) / "server.toml"
        config.write_text(_table("server", settings) + "".join(
            _table("[models]", {"devices": ["cpu"], "n_threads": 1, **model})
            for model in models))
        with open(log, "w") as file:
            process = subprocess.Popen(
                [*within, sys.executable, "-P", "-m", "unladen", "serve", "--config",
                 str(config), "--port", "0"], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            served = Served(address_of(process, log), process.pid, log)
            yield served
            left = served.workers()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == status, log.read_text()
            assert not any(map(is_alive, left))
        except BaseException:
            print(log.read_text())
            raise
        finally:
            process.kill()
            process.wait()


def address_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address of the server that ``process`` starts, once its ``log`` says it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = ADDRESS.search(log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(WAIT)
    raise AssertionError(f"the server didn't start: {log.read_text()}")


def _table(name: str, values: Named) -> str:
    lines = [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines]) + "\n"


def _value(value: object) -> str:
    return json.dumps(os.fspath(value) if isinstance(value, Path) else value)
