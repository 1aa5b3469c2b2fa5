"""A small random model and two ways to run the command line."""

from __future__ import annotations

import io
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen.cli.app import DEBUG_VARIABLE, main


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

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


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """A text of 400 bytes, about as many tokens."""
    path = tmp_path / "text.txt"
    path.write_text("abc de, f. " * 36 + "ab c", encoding="utf-8")
    return path
