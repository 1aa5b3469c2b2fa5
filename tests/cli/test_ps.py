"""``unladen ps`` and ``unladen stop`` ask a server, and say what is wrong where none answers."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from cli.conftest import Run, Terminal
from cli.test_serve import serving
from clients.greeter import CONTEXT, write_greeter
from seen_terminal import SeenTerminal
from server.live import live
from server.scripted import CARD, ScriptedCore
from unladen.cli._ending import Code
from unladen.cli._running import Running
from unladen.cli.ps import models_of, table
from unladen.errors import InvalidArgument
from unladen.server.app import make_app
from unladen.server.core import Card
from unladen.server.faults import Fault
from unladen.server.keys import Key, digest_of
from unladen.server.settings import Settings

NOW = 1_800_000_000.0
CARDS = (
    replace(CARD, device_bytes={"cpu:0": 3 << 20, "wgpu:0": 5 << 30}, running=2, waiting=7,
            tokens_per_second=81.25),
    Card("idle", state="ready", expires=NOW + 200, context_size=8192),
    Card("stays", state="ready"), Card("gone"),
    Card("coming", state="loading", share=0.42), Card("again", state="restarting"),
    Card("broken:7b", state="failed", fault=Fault("load_failed", "the file\x1b[31m is cut off")))


@pytest.fixture
def core() -> ScriptedCore:
    return ScriptedCore(cards=CARDS)


@pytest.fixture
def address(core: ScriptedCore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("UNLADEN_KEY", raising=False)
    with live(make_app(core, Settings())) as found:
        monkeypatch.setenv("UNLADEN_SERVER", found)
        yield found


def row(lines: list[str], name: str) -> list[str]:
    return re.split(r"  +", next(line for line in lines if line.startswith(name)))


def test_the_table(unladen: Run, address: str) -> None:
    ran = unladen("ps")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["model", "state", "context", "memory", "running", "waiting",
                                "tokens/s", "unloads"]
    assert row(lines, "tiny-chat") == [
        "tiny-chat", "ready", "1,024", "cpu:0 3.00 MiB, wgpu:0 5.00 GiB", "2", "7", "81.2",
        "in use"]
    assert row(lines, "stays")[-1] == "never"
    assert row(lines, "coming")[1] == "loading 42%"
    assert row(lines, "again")[1] == "restarting"
    assert row(lines, "broken:7b")[1:4] == ["failed", "-", "-"]
    assert lines[-1] == r"broken:7b: the file\x1b[31m is cut off"
    assert not [line for line in lines if line.startswith("gone")]


def test_the_time_that_is_left(address: str) -> None:
    models = models_of(Running(None, None))
    for later, text in ((0, "in 3 min"), (170, "in 30 s"), (-3600 * 5, "in 5 h"), (1000, "in 0 s"),
                        (-86400 * 3, "in 3 d")):
        assert row(table(models, 200, 200, NOW + later), "idle")[-1] == text


def test_as_json(unladen: Run, address: str) -> None:
    found = {each["name"]: each for each in json.loads(unladen("ps", "--json").out)}
    assert set(found) == {"tiny-chat", "idle", "stays", "coming", "again", "broken:7b"}
    assert found["tiny-chat"]["memory"] == {"cpu:0": 3 << 20, "wgpu:0": 5 << 30}
    assert (found["tiny-chat"]["running"], found["tiny-chat"]["waiting"]) == (2, 7)
    assert found["tiny-chat"]["tokens_per_second"] == 81.25
    assert found["coming"]["progress"] == 0.42
    assert found["broken:7b"]["error"].endswith("is cut off")
    assert found["idle"]["unloads_at"].startswith("2027-01-15T08:03:20")
    assert found["stays"]["unloads_at"] is None


def test_a_narrow_terminal(address: str) -> None:
    lines = table(models_of(Running(None, None)), 45, 45, NOW)
    assert max(map(len, lines)) <= 45
    assert "tiny-chat" in lines and any("running" in line and "2" in line for line in lines)


def test_stop(unladen: Run, address: str, core: ScriptedCore) -> None:
    ran = unladen("stop", "idle", "gone")
    assert (ran.code, ran.out, ran.err) == (0, "idle is unloaded\ngone wasn't in memory\n", "")
    assert "idle" not in {each["name"] for each in json.loads(unladen("ps", "--json").out)}
    ran = unladen("stop", "tiny-chat:latest")
    assert ran.out == "tiny-chat:latest is unloaded\n"
    assert ran.err == ("tiny-chat:latest answers 2 requests; it is unloaded once they have "
                       "ended\n")
    ran = unladen("stop", "nothing")
    assert (ran.code, ran.out) == (1, "")
    assert "has no model nothing" in ran.err and "in memory: stays, coming" in ran.err
    for name in ("stays", "coming", "again", "broken:7b"):
        assert unladen("stop", name).code == 0
    assert unladen("ps").out == "no model is in memory\n"


def test_keys(unladen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (Key("a", digest_of("right")), Key("b", digest_of("asks"), frozenset({"use"})))
    monkeypatch.delenv("UNLADEN_KEY", raising=False)
    with live(make_app(ScriptedCore(cards=CARDS), Settings(keys=keys))) as address:
        ran = unladen("ps", "--server", address)
        assert ran.code == 1 and "needs a key" in ran.err and "UNLADEN_KEY" in ran.err
        assert "doesn't know this key" in unladen("ps", "--server", address, "--key", "x").err
        assert "can't be sent" in unladen("ps", "--server", address, "--key", "\u20ac").err
        assert unladen("ps", "--server", address, "--key", "right").code == 0
        monkeypatch.setenv("UNLADEN_KEY", "asks")
        assert unladen("ps", "--server", address).code == 0
        ran = unladen("stop", "idle", "--server", address)
        assert ran.code == 1 and "it needs the scope manage" in ran.err
        assert "hint: the operator can add the scope" in ran.err


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_no_server(unladen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLADEN_SERVER", f"127.0.0.1:{free_port()}")
    for command in (["ps"], ["ps", "--json"], ["stop", "tiny"]):
        ran = unladen(*command)
        assert (ran.code, ran.out) == (1, "")
        assert "no server answers at http://127.0.0.1:" in ran.err
        assert "hint: unladen serve MODEL starts one; --server ADDRESS" in ran.err
    ran = unladen("ps", "--server", f"unix:{tmp_path}/none")
    assert f"no server answers at unix:{tmp_path}/none: No such file" in ran.err


@pytest.mark.parametrize(("given", "address"), [
    ("localhost", "http://localhost:8080"), ("box:9", "http://box:9"), ("0.0.0.0:1",
     "http://127.0.0.1:1"), ("[::1]:8", "http://[::1]:8"), ("http://box", "http://box:80"),
    ("https://box/v1/", "https://box:443"), ("http://box:1/llm/", "http://box:1/llm"),
    ("unix:/run/u", "unix:/run/u"), (" box ", "http://box:8080")])
def test_addresses(given: str, address: str) -> None:
    assert Running(given, None).address == address


@pytest.mark.parametrize("given", ["ftp://box", "foo bar", "http://", "box:x", "box:70000", "[::1",
                                   "unix:", "http://box/?a=b", "http://bo\rx", "", "\0"])
def test_what_is_no_address(unladen: Run, given: str) -> None:
    with pytest.raises(InvalidArgument, match="--server must be"):
        Running(given, None)


class Stranger(http.server.BaseHTTPRequestHandler):
    """Another program's answers, one after the other."""

    answers: list[bytes]

    def do_GET(self) -> None:
        self.wfile.write(self.answers.pop(0))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def test_another_program_answers(unladen: Run) -> None:
    def reply(status: str, text: str) -> bytes:
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

    Stranger.answers = [b"SSH-2.0-x\r\n", reply("200 OK", "<html>"), reply("404 No", "{}"),
                        reply("200 OK", "[1]"), reply("200 OK", '{"models": [1]}'), b"",
                        reply("200 OK", "[" * 100_000)]
    n = len(Stranger.answers)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(n):
            ran = unladen("ps", "--server", f"127.0.0.1:{server.server_port}")
            assert ran.code == 1
            assert "isn't unladen serve" in ran.err or "no server answers" in ran.err
        server.shutdown()
    assert not Stranger.answers


def test_ollamas_own_answer_is_understood(unladen: Run) -> None:
    told = {"models": [{"name": "llama3.2:1b", "model": "llama3.2:1b", "size": 3 << 30,
                        "size_vram": 1 << 30, "context_length": 4096,
                        "expires_at": "2318-11-29T02:36:00+02:00"}]}
    text = json.dumps(told).encode()
    Stranger.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ran = unladen("ps", "--server", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert row(ran.out.splitlines(), "llama3.2:1b")[1:4] == [
        "ready", "4,096", "gpu 1.00 GiB, cpu 2.00 GiB"]


def test_on_a_terminal_it_is_drawn_in_place(terminal: Terminal, address: str, core: ScriptedCore
                                            ) -> None:
    command = [sys.executable, "-m", "unladen", "ps"]
    with SeenTerminal(command, {**terminal.environment, "UNLADEN_SERVER": address}, 110) as seen:
        seen.wait_for("loading 42%")
        core._cards["coming"] = replace(core._cards["coming"], share=0.87)
        seen.wait_for("loading 87%")
        core._cards.clear()
        seen.wait_for("no model is in memory")
        seen.type("\x03")
        assert seen.end() == Code.INTERRUPTED
        assert seen.raw.count(b"model  ") == 1  # the head is written once, later rows alone change
        assert b"\x1b[" in seen.raw and b"Traceback" not in seen.raw
    code, text = terminal(110, [sys.executable, "-m", "unladen", "ps", "--once"],
                          UNLADEN_SERVER=address)
    assert (code, text) == (0, "no model is in memory\n")


def test_a_real_server(unladen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + os.urandom(100))
    monkeypatch.delenv("UNLADEN_KEY", raising=False)
    talker = write_greeter(tmp_path / "talker.gguf", again_and_again=True)
    with serving(tmp_path, f"talker={talker}", f"damaged={damaged}", UNLADEN_KEY="a-key"
                 ) as served:
        monkeypatch.setenv("UNLADEN_SERVER", served.wait_for(r"(http://\S+)"))
        monkeypatch.setenv("UNLADEN_KEY", "a-key")
        served.wait_for("try: ")
        import httpx
        body = {"model": "talker", "prompt": "a", "stream": True, "ignore_eos": True,
                "max_tokens": CONTEXT // 2}
        headers = {"x-api-key": "a-key"}
        address = os.environ["UNLADEN_SERVER"]
        assert httpx.post(f"{address}/v1/completions", headers=headers, timeout=60, json={
            "model": "damaged", "prompt": "a"}).status_code >= 400
        with httpx.stream("POST", f"{address}/v1/completions", json=body, headers=headers,
                          timeout=60) as reply:
            pieces = reply.iter_text()
            next(pieces)
            found = {each["name"]: each for each in json.loads(unladen("ps", "--json").out)}
            assert found["talker"]["running"] == 1
            assert sum(found["talker"]["memory"].values()) > 1 << 20
            assert found["damaged"]["state"] == "failed" and found["damaged"]["error"]
            end = time.monotonic() + 60
            while not (speed := json.loads(unladen("ps", "--json").out)[0]["tokens_per_second"]):
                # Also an answer that has ended shows for a second how fast it was written.
                assert time.monotonic() < end
                time.sleep(0.05)
            assert 0 < speed < 1e6
        assert unladen("stop", "talker").out == "talker is unloaded\n"
        assert [each["name"] for each in json.loads(unladen("ps", "--json").out)] == ["damaged"]
        served.end(signal.SIGTERM)
        assert "no server answers" in unladen("ps").err
