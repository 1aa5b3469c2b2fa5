"""Tests of the hub's real client with a server on this machine, and without one."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hub.pretend_hub import CONTENT, Pretend
from unladen.errors import DiskFull, ModelNotFound, UnladenError
from unladen.hub import HubFile, HubQuant, resolve_model
from unladen.hub.failures import Unreachable
from unladen.hub.fetch import fetch

constants = pytest.importorskip("huggingface_hub.constants")
utils = pytest.importorskip("huggingface_hub.utils")
@pytest.fixture
def closed_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def test_from_the_hub_then_from_the_cache(hub: Pretend, cache: Path) -> None:
    path = resolve_model("org/repo:q8_0", aliases={})
    assert path.read_bytes() == CONTENT and path.is_relative_to(cache)
    n_asked = len(hub.asked)
    assert resolve_model("org/repo:Q8_0", aliases={}) == path
    assert resolve_model("hf://org/repo/m-Q8_0.gguf", aliases={}) == path
    assert len(hub.asked) == n_asked
    hub.answer = (503, {})
    assert resolve_model("org/repo:Q8_0", aliases={}) == path
    assert fetch(HubQuant("org/repo", "Q8_0"), offline=True) == path


def test_what_is_not_there(hub: Pretend) -> None:
    with pytest.raises(ModelNotFound, match="org/repo has no Q2_K") as caught:
        fetch(HubQuant("org/repo", "Q2_K"))
    assert "it has: Q4_K_M, Q8_0" in caught.value.hint
    with pytest.raises(ModelNotFound, match=r"org/repo has no x\.gguf") as caught:
        fetch(HubFile("org/repo", "x.gguf"))
    assert "it has: m-Q4_K_M.gguf, m-Q8_0.gguf" in caught.value.hint
    with pytest.raises(ModelNotFound, match="the hub has no org/none"):
        fetch(HubQuant("org/none"))


def test_gated(hub: Pretend) -> None:
    hub.gated = True
    with pytest.raises(UnladenError, match="org/repo is gated") as caught:
        fetch(HubQuant("org/repo", "Q8_0"))
    assert "HF_TOKEN" in caught.value.hint


@pytest.mark.parametrize(("answer", "kind", "message", "hint"), [
    ((401, {}), UnladenError, "refused org/repo: status 401|no org/repo", "HF_TOKEN"),
    ((429, {"Retry-After": "77"}), UnladenError, "too many requests", "wait 77 s"),
    ((500, {}), UnladenError, "refused org/repo: .*500", "later"),
    ((407, {}), UnladenError, "wants a password", "address"),
    ((200, {}), UnladenError, "isn't the hub's", "log in to the network")])
def test_answers(hub: Pretend, answer: Any, kind: type[UnladenError], message: str, hint: str,
                 caplog: pytest.LogCaptureFixture) -> None:
    hub.answer = answer
    start = time.monotonic()
    with caplog.at_level(logging.INFO), pytest.raises(kind, match=message) as caught:
        fetch(HubQuant("org/repo", "Q8_0"))
    assert hint in caught.value.hint
    assert len(hub.asked) == 1, "it was tried again"
    assert not [r for r in caplog.records if r.name.startswith("huggingface_hub")]
    assert time.monotonic() - start < 60


def test_downloads_that_break_off_go_on(hub: Pretend) -> None:
    hub.n_cut = 3
    path = fetch(HubQuant("org/repo", "Q8_0"))
    assert path.read_bytes() == CONTENT
    assert sum("GET /org/repo/resolve" in line for line in hub.asked) == 4


def test_downloads_that_never_end(hub: Pretend, cache: Path) -> None:
    hub.n_cut = 10**6
    with pytest.raises(UnladenError, match=r"broke off|can't be reached") as caught:
        fetch(HubQuant("org/repo", "Q8_0"))
    assert "again" in caught.value.hint
    hub.n_cut = 0
    assert fetch(HubQuant("org/repo", "Q8_0")).read_bytes() == CONTENT


def test_a_full_disk(hub: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
    monkeypatch.setattr("unladen.hub.fetch.blob_of", lambda *_, **__: None)  # its client downloads
    with pytest.raises(DiskFull, match="doesn't fit") as caught:
        fetch(HubQuant("org/repo", "Q8_0"))
    assert "HF_HOME" in caught.value.hint


def test_names_of_hosts_are_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = threading.Event()
    monkeypatch.setattr("unladen.hub.fetch.CONNECT_S", 0.05)
    monkeypatch.setattr("unladen.hub.fetch.socket.getaddrinfo", lambda *_: ready.wait())
    try:
        with pytest.raises(Unreachable, match="can't be reached"):
            fetch(HubQuant("org/repo", "Q8_0"))
    finally:
        ready.set()


@pytest.mark.parametrize(("changed", "hint"), [
    ({"HF_ENDPOINT": "http://127.0.0.1:PORT"}, "HF_ENDPOINT is http://127.0.0.1:"),
    ({"HTTPS_PROXY": "http://me:secret@127.0.0.1:PORT"}, "the proxy is http://...@127.0.0.1:"),
    ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set")])
def test_the_command_line_says_it_once(changed: dict[str, str], hint: str, closed_port: int,
                                       tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items()
                   if not k.upper().endswith("PROXY") and not k.startswith(("HF_", "UNLADEN_"))}
    environment |= {k: v.replace("PORT", str(closed_port)) for k, v in changed.items()}
    done = subprocess.run(
        [sys.executable, "-m", "unladen", "run", "org/repo:Q4_K_M", "hi"], capture_output=True,
        text=True, check=False, env=environment | {"HF_HOME": str(tmp_path)}, timeout=120)
    assert done.returncode == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert hint in lines[1] and "secret" not in done.stderr
