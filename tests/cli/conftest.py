"""Fixtures: a small random model, and ways to run the command line."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import secrets
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import gpu
from unladen.cli.app import DEBUG_VARIABLE, main


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A llama of random weights with a context of 256 tokens; it never ends by itself."""
    seed = secrets.randbits(32)
    print(f"model seed: {seed}")
    path = tmp_path_factory.mktemp("models") / "random.gguf"
    return str(write_tiny(path, np.random.default_rng(seed)))


@pytest.fixture
def unladen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``unladen ARGUMENTS`` in this process, with the text ``stdin``."""
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)

    def run(*arguments: object, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.argv", ["unladen", *map(str, arguments)])
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Ran(exit_.value.code, out, err)

    return run


@pytest.fixture
def start() -> Start:
    """``unladen ARGUMENTS`` in a process of its own, all streams piped."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UNLADEN_")}

    def start(*arguments: object, **changed: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "unladen", *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment | changed)

    return start


@pytest.fixture(autouse=True)
def _no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the note about an unused GPU, which depends on the machine; ``test_notes.py`` tests
    it."""
    monkeypatch.setattr(gpu, "cards", list)


@dataclass(frozen=True)
class Terminal:
    """Runs a command in a terminal of a given width, to which stdin, stdout and stderr are
    connected."""

    environment: Mapping[str, str]

    def __call__(self, columns: int, command: Sequence[str], **changed: str) -> tuple[int, str]:
        """The exit code and the output, with the terminal's control codes."""
        primary, secondary = pty.openpty()
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(list(command), stdin=secondary, stdout=secondary,
                                   stderr=secondary, env={**self.environment, **changed},
                                   start_new_session=True)
        os.close(secondary)
        came = b""
        while select.select([primary], [], [], 120)[0]:
            try:
                piece = os.read(primary, 1 << 16)
            except OSError:
                break  # all writers have closed it
            if not piece:
                break
            came += piece
        os.close(primary)
        return process.wait(60), came.decode(errors="replace").replace("\r\n", "\n")


@pytest.fixture
def terminal() -> Terminal:
    """A terminal that can show colours; commands use the CPU only."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("UNLADEN_") and k not in ("NO_COLOR", "COLUMNS", "LINES")}
    return Terminal({**kept, "UNLADEN_DEVICES": "cpu", "TERM": "xterm-256color"})


@dataclass(frozen=True)
class Shell:
    """Runs ``unladen`` in ``sh`` with redirections, as a service or a script starts it."""

    environment: Mapping[str, str]

    def __call__(self, redirections: str, *arguments: object, **changed: str) -> Ran:
        """The result of ``unladen ARGUMENTS REDIRECTIONS``; redirected streams come back empty."""
        line = f'exec "$@" {redirections}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", sys.executable, "-m", "unladen", *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=120,
            env={**self.environment, **changed})
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shell() -> Shell:
    """``unladen`` with streams that a shell redirects; commands use the CPU only."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("UNLADEN_") and k != "PYTHONUNBUFFERED"}
    return Shell({**kept, "UNLADEN_DEVICES": "cpu"})


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """A text of 400 bytes, about as many tokens."""
    path = tmp_path / "text.txt"
    path.write_text("abc de, f. " * 36 + "ab c", encoding="utf-8")
    return path
