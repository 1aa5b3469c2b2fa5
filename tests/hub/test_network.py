"""Tests of the hub's real client with a server on this machine, and without one."""

from __future__ import annotations

import hashlib
import http.server
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unladen.errors import DiskFull, ModelNotFound, UnladenError
from unladen.hub import HubFile, HubQuant, resolve_model
from unladen.hub.failures import Unreachable
from unladen.hub.fetch import fetch

constants = pytest.importorskip("huggingface_hub.constants")
utils = pytest.importorskip("huggingface_hub.utils")
COMMIT = "5" * 40
CONTENT = bytes(range(256)) * 4000


class Pretend(http.server.ThreadingHTTPServer):
    """A hub with one repository. ``answer``: a status and headers for every request; ``n_cut``:
    downloads that break off half-way; ``asked`` lists the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: tuple[int, dict[str, str]] | None = None
        self.gated = False
        self.n_cut = 0
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Pretend
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        self.server.asked.append(format % args)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.server.answer is not None:
            self._send(self.server.answer[0], b"no", self.server.answer[1])
        elif self.path.startswith("/api/models/org/repo/"):
            names = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md"]
            self._send(200, json.dumps({
                "id": "org/repo", "sha": COMMIT,
                "siblings": [{"rfilename": name} for name in names]}).encode(), {})
        elif self.path.startswith("/org/repo/resolve/"):
            self._file()
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _file(self) -> None:
        if self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
            return
        begin = 0
        if wanted := self.headers.get("Range"):
            begin = int(wanted.removeprefix("bytes=").split("-")[0])
        content = CONTENT[begin:]
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(CONTENT).hexdigest()}"',
                   "Accept-Ranges": "bytes"}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}"
        if self.command == "GET" and self.server.n_cut:
            self.server.n_cut -= 1
            self._send(206 if begin else 200, content, headers, cut=True)
        else:
            self._send(206 if begin else 200, content, headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str], cut: bool = False
              ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[:len(content) // 2] if cut else content)
        self.close_connection = cut
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    utils.close_session()  # the client's session has read the old environment
    return tmp_path / "hub"


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretend]:
    with Pretend() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE",
                            constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT,
                                                                          address))
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
        yield server
        server.shutdown()
    utils.close_session()


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
