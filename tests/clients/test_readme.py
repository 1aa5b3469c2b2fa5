"""README's lines about the server, as they stand: it in one terminal, its clients in another."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="needs the openai package")

from clients.lifetimes import FIRST_S, first_token
from clients.namespace import loopback_alone
from clients.serving import ENDED, PATIENCE
from house.tree import ROOT
from server.hosting import until

SECTION = re.compile(r"^## As a server\n(.*?)^## ", re.M | re.S)
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.S)
PORT = 8080
"""The port that README's lines name."""
BUSY = 15.0
"""A busy machine may take so many times as long. ``lifetimes.py`` measures it on a quiet one."""


def section() -> dict[str, str]:
    """The blocks of the section on the server by their language."""
    found = SECTION.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    return dict(BLOCK.findall(found[1]))


@contextlib.contextmanager
def own_port() -> Iterator[list[str]]:
    """A command that starts others where nobody else listens at README's port. Skips where somebody
    does, and the system gives no other place."""
    with socket.socket() as probe:
        is_free = probe.connect_ex(("127.0.0.1", PORT)) != 0
    if is_free:
        yield []
        return
    with loopback_alone() as within:
        yield within


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with ``unladen`` and ``python`` on the path."""
    for name, call in (("unladen", "-P -m unladen "), ("python", "")):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def test_the_server_answers_curl_and_openai(environment: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    blocks = section()
    start, *asks = blocks["bash"].splitlines()
    log = tmp_path / "log"

    def run(*command: str) -> str:
        return subprocess.run([*within, *command], env=environment, text=True, check=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE).stdout

    with own_port() as within, open(log, "w") as file:
        server = subprocess.Popen([*within, "bash", "-c", f"exec {start}"], env=environment,
                                  stdout=file, stderr=file)
        try:
            until(lambda: "serves tiny at" in log.read_text() or server.poll() is not None)
            assert server.poll() is None, log.read_text()
            answers = [json.loads(run("bash", "-euc", each))["choices"][0]["text"]
                       for each in asks]
            streamed = run("python", "-c", blocks["python"])
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == ENDED, log.read_text()
        finally:
            server.kill()
            server.wait()
    assert len(answers) == 1
    assert all(len(each.split()) > 4 for each in (*answers, streamed)), (answers, streamed)


def test_the_first_token_comes_soon(tmp_path: Path) -> None:
    assert first_token(tmp_path / "log") < BUSY * FIRST_S
