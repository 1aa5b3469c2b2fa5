"""``unladen serve`` as a process: start, answers, keys, signals, errors."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx

from cli.conftest import Run
from server.serving import PATIENCE, serving


def children(pid: int) -> list[int]:
    return [int(word) for each in Path(f"/proc/{pid}/task").glob("*/children")
            for word in each.read_text().split()]


def are_gone(pids: Sequence[int]) -> bool:
    end = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def chat(address: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{address}/v1/chat/completions", timeout=PATIENCE, json={
        "model": "chat", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8,
        **more.pop("body", {})}, **more)


def test_it_answers_and_ends_in_order(tmp_path: Path) -> None:
    with serving(tmp_path, "chat=tiny-chat", "--audit", tmp_path / "audit.jsonl",
                 "--log-requests") as served:
        address = served.wait_for(r"unladen serves chat at (http://127\.0\.0\.1:\d+)")
        example = served.wait_for(r"try: (curl .*)")
        assert "/v1/chat/completions" in example
        assert chat(address).json()["choices"][0]["message"]["content"]
        assert served.wait_for(r"POST /v1/chat/completions 200, chat, .*written")
        if shutil.which("curl"):
            done = subprocess.run(example, shell=True, capture_output=True, timeout=PATIENCE,
                                  check=True)
            assert json.loads(done.stdout)["model"] == "chat"
        workers = children(served.process.pid) if sys.platform == "linux" else []
        with httpx.stream("POST", f"{address}/v1/chat/completions", timeout=PATIENCE, json={
                "messages": [{"role": "user", "content": "Hello"}], "stream": True,
                "ignore_eos": True, "max_tokens": 900}) as reply:
            pieces = reply.iter_text()
            next(pieces)
            code, seconds = served.end(signal.SIGTERM)
            text = "".join(pieces)
        assert '"error"' in text or text.endswith("[DONE]\n\n")
        assert code == 143
        assert seconds < 50  # five on a machine that isn't busy
        assert are_gone(workers)
        assert len((tmp_path / "audit.jsonl").read_text().splitlines()) >= 2
        assert "Traceback" not in served.said


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "tiny-chat", "tiny") as served:
        address = served.wait_for(r"(http://\S+)")
        served.wait_for("try: ")
        workers = children(served.process.pid)
        assert workers
        with httpx.stream("POST", f"{address}/v1/completions", timeout=PATIENCE, json={
                "model": "tiny-chat", "prompt": "a", "stream": True, "ignore_eos": True,
                "max_tokens": 1000}) as reply:
            next(reply.iter_text())
            served.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            code, _ = served.end(signal.SIGTERM)
        assert code == 143
        assert are_gone(workers)


def test_other_machines_need_the_key_that_is_made(tmp_path: Path) -> None:
    with serving(tmp_path, "chat=tiny-chat", "--host", "0.0.0.0") as served:
        port = served.wait_for(r"http://[^\s:]+:(\d+)")
        key = served.wait_for(r"shown once: (sk-unladen-\S+)")
        address = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{address}/v1/models").status_code == 401
        assert chat(address, headers={"Authorization": f"Bearer {key}x"}).status_code == 401
        assert chat(address, headers={"Authorization": f"Bearer {key}"}).status_code == 200
        served.wait_for("try: ")
        assert served.said.count(key) == 2  # the line of the key, and the example


def test_a_file_of_settings_and_keys(tmp_path: Path, unladen: Run) -> None:
    keys = tmp_path / "keys.toml"
    made = unladen("serve", "--make-key", "laptop", "--key-file", keys)
    assert (made.code, keys.stat().st_mode & 0o777) == (0, 0o600)
    key = made.out.strip()
    config = tmp_path / "unladen.toml"
    config.write_text('[server]\nkey_file = "keys.toml"\n[[models]]\nname = "chat"\n'
                      'ref = "tiny-chat"\naliases = ["gpt-4o"]\ncontext_size = 512\n')
    with serving(tmp_path, "--config", config, UNLADEN_KEY="another-key") as served:
        address = served.wait_for(r"(http://\S+)")
        served.wait_for("try: ")
        for each in (key, "another-key"):
            headers = {"x-api-key": each}
            models = httpx.get(f"{address}/v1/models", headers=headers).json()["data"]
            assert [(model["id"], model["context_length"]) for model in models] == [("chat", 512)]
        assert chat(address, headers=headers, body={"model": "gpt-4o"}).is_success
        assert chat(address, headers=headers, body={"model": "../chat"}).status_code == 404
        assert key not in served.said


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    with serving(tmp_path, "chat=tiny-chat", "--cert", cert, "--cert-key", key) as served:
        address = served.wait_for(r"(https://\S+)")
        import ssl
        trusted = ssl.create_default_context(cafile=str(cert))
        assert httpx.get(f"{address}/health", verify=trusted).json() == {"status": "ok"}
        with pytest.raises(httpx.TransportError):
            httpx.get(address.replace("https", "http") + "/health")
        served.wait_for("try: ")
        assert chat(address, verify=trusted).is_success


@pytest.mark.parametrize(("arguments", "says"), [
    (["no-such-model.gguf"], "doesn't exist"), ([], "no model to serve"),
    (["tiny", "tiny"], "two models are called tiny"),
    (["tiny", "--host", "0.0.0.0", "--key", "short"], "at least 16 characters"),
    (["tiny", "--port", "70000"], "port"), (["tiny", "--keep-alive", "soon"], "keep_alive"),
    (["tiny", "--cert", "a.pem"], "cert_key"), (["tiny", "--key-file", "none"], "key file"),
    (["tiny", "--config", "none.toml"], "none.toml"), (["--make-key", "a"], "--key-file"),
    (["tiny", "--allow-origin", "chat.example"], "an origin"),
    (["tiny", "--audit", "/no/such/folder/a"], "can't write the audit")])
def test_what_is_wrong_is_said(unladen: Run, arguments: list[str], says: str) -> None:
    done = unladen("serve", *arguments, "--port", "0") if "--port" not in arguments else unladen(
        "serve", *arguments)
    assert done.code in (1, 2)
    assert says in done.err
    assert "hint: " in done.err
    assert "Traceback" not in done.err
