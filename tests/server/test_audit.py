"""The audit: a line for each request, whatever becomes of the file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from server.scripted import ScriptedCore, answer, ended
from unladen.errors import InvalidArgument
from unladen.server.app import make_app
from unladen.server.audit import Audit
from unladen.server.events import Begun, Piece
from unladen.server.faults import Fault
from unladen.server.keys import Key, digest_of
from unladen.server.settings import Settings

SECRET = "the text of a question"
LOCAL = "http://127.0.0.1"


def test_each_request_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path)
    core = ScriptedCore(answer(SECRET))
    settings = Settings(keys=(Key("laptop", digest_of("right")),))
    with TestClient(make_app(core, settings, audit=audit), base_url=LOCAL,
                    headers={"x-api-key": "right"}) as client:  # one event loop for all
        body = {"model": "small", "messages": [{"role": "user", "content": SECRET}]}
        reply = client.post("/v1/chat/completions", json=body)
        client.post("/v1/chat/completions", json={**body, "stream": True})
        core.script = [Begun(1), Piece(0, SECRET), Fault("worker_lost", SECRET)]
        client.post("/v1/chat/completions", json={**body, "stream": True})
        client.get("/nothing?" + SECRET)
        client.get("/v1/models", headers={"x-api-key": "wrong-" + SECRET})
    audit.close()
    text = path.read_text()
    assert SECRET not in text
    lines = [json.loads(line) for line in text.splitlines()]
    told = [(line["status"], line["key"], line["route"], line["model"], line["n_completion"],
             line["fault"]) for line in lines]
    route = "/v1/chat/completions"
    assert told == [(200, "laptop", route, "tiny-chat", ended().n_completion, ""),
                    (200, "laptop", route, "tiny-chat", ended().n_completion, ""),
                    (200, "laptop", route, "tiny-chat", 0, "worker_lost"),
                    (404, "laptop", "", "", 0, "not_found"), (401, "", "", "", 0, "no_key")]
    assert lines[0]["id"] == reply.headers["x-request-id"]
    assert lines[0]["n_prompt"] == ended().n_prompt
    assert lines[0]["dialect"] == "openai"
    assert 0 <= lines[0]["first_s"] <= lines[0]["seconds"]


def test_a_file_that_was_moved_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        audit = Audit(path)
        audit.write({"number": number})
        audit.close()
    assert len(path.read_text().splitlines()) == 2
    audit = Audit(path)
    path.rename(tmp_path / "old.jsonl")
    audit.write({"number": 3})
    audit.close()
    assert json.loads(path.read_text()) == {"number": 3}


def test_a_folder_that_comes_back_gets_lines_again(tmp_path: Path,
                                                   caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = Audit(folder / "audit.jsonl")
    folder.rename(tmp_path / "moved")
    for number in range(3):  # each is a batch of its own
        audit.write({"number": number})
        until = time.monotonic() + 30
        while not audit._waiting.empty() and time.monotonic() < until:
            time.sleep(0.001)
    folder.mkdir()
    audit.write({"number": 3})
    audit.close()
    assert "lines of the audit are lost" in caplog.text
    assert json.loads((folder / "audit.jsonl").read_text().splitlines()[-1]) == {"number": 3}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    Audit(tmp_path / "a").close()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to write to")
def test_a_full_disk_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(Path("/dev/full"))
    for number in range(100):
        audit.write({"number": number})
    audit.close()
    assert "lines of the audit are lost" in caplog.text
    assert len(caplog.records) <= 100


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="can't write the audit"):
        Audit(tmp_path / "none" / "audit.jsonl")
