"""What was left out of a conversation, or changed in it, reaches every client and the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from server.live import live
from server.scripted import ScriptedCore, Step, ended
from unladen.server.app import make_app
from unladen.server.audit import Audit
from unladen.server.events import Begun, Piece
from unladen.server.settings import Settings

NOTE = "the template has no system role: the user's first message begins with its text"
LEFT = "40 tokens of the conversation were left out: the context doesn't hold them"
TOLD = [LEFT, NOTE]
SCRIPT: list[Step] = [Begun(11, 40, (NOTE,)), Piece(0, "Good "), Piece(0, "day."), ended()]
PLAIN: list[Step] = [Begun(11), Piece(0, "Good day."), ended()]
USER = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": USER}, "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"}, "/v1/messages": {"messages": USER, "max_tokens": 9},
    "/api/chat": {"messages": USER}, "/api/generate": {"prompt": "Hi"},
    "/completion": {"prompt": "Hi"}}


def _notes(value: Any) -> list[Any]:
    """Every field ``notes`` in ``value``."""
    if isinstance(value, dict):
        return [*([value["notes"]] if "notes" in value else []),
                *(found for each in value.values() for found in _notes(each))]
    return [found for each in value for found in _notes(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("streams", [False, True])
def test_every_dialect_shows_them(address: str, core: ScriptedCore, path: str, streams: bool
                                  ) -> None:
    for script, expected in ((SCRIPT, TOLD), (PLAIN, None)):
        core.script = script
        reply = httpx.post(address + path, json={"model": "tiny-chat", "stream": streams,
                                                 **BODIES[path]})
        assert reply.status_code == 200
        if not streams:
            values = [reply.json()]
        else:
            lines = [line.removeprefix("data: ") for line in reply.text.splitlines()]
            values = [json.loads(line) for line in lines if line.startswith("{")]
        found = _notes(values)
        assert found[-1:] == ([] if expected is None else [expected]), reply.text
        if path == "/completion":
            assert values[-1]["truncated"] is (expected is not None)


def test_clients_take_them(address: str, core: ScriptedCore) -> None:
    core.script = SCRIPT
    users: Any = USER
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0,
                       _strict_response_validation=True) as strict:
        done: Any = strict.chat.completions.create(model="tiny-chat", messages=users)
        told: Any = strict.responses.create(model="tiny-chat", input="Hi", truncation="auto")
    assert done.notes == TOLD and done.choices[0].message.content == "Good day."
    assert told.notes == TOLD and told.output_text == "Good day."
    with anthropic.Anthropic(base_url=address, api_key="none") as client:
        said: Any = client.messages.create(model="tiny-chat", max_tokens=9, messages=users)
    assert said.notes == TOLD and said.content[0].text == "Good day."
    with ollama.Client(address) as other:
        answer = other.chat("tiny-chat", users)
    assert answer.message.content == "Good day."


def test_the_log_and_the_audit_have_them(tmp_path: Path, caplog: pytest.LogCaptureFixture
                                         ) -> None:
    core = ScriptedCore(SCRIPT)
    audit = Audit(tmp_path / "audit")
    made = make_app(core, Settings(log_requests=True), audit=audit)
    with caplog.at_level(logging.INFO), live(made) as address:
        reply = httpx.post(f"{address}/v1/chat/completions", json={"messages": USER})
        assert reply.status_code == 200
    line, = (r.getMessage() for r in caplog.records if r.name == "unladen.server.requests")
    assert "40 tokens of the conversation left out" in line and NOTE in line
    audit.close()
    written = json.loads((tmp_path / "audit").read_text())
    assert (written["n_truncated"], written["n_notes"]) == (40, 1)
    assert NOTE not in json.dumps(written)  # the audit has no texts
