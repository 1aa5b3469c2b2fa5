"""What people complained of in 2026 about servers of language models, each tried on ours.

The numbers are those of the list of complaints that the server was designed by. The model reads
long prompts cheaply and says one greeting (``greeter.py``)."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from clients.greeter import CONTEXT, GREETING, write_greeter
from clients.serving import Served, serving
from server.hosting import until

SENTENCE = "The quick brown fox. "
SENTENCES = 6_000
"""Sentences of a prompt that takes a second or more to read: 42,000 tokens."""
ENDLESS = CONTEXT - 1_000
"""Tokens that take half a minute or more to write."""
TOO_MANY = 4 * SENTENCES
"""Sentences that have more tokens than the model's context."""
BEAT = 0.02
"""Seconds between two heartbeats."""
HASTE = httpx.Timeout(60, read=0.4)
"""The limits of a client that leaves soon when nothing comes."""
LONG_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat")
"""The routes that answer conversations."""


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that computes one answer at a time, with a heartbeat that a test can wait for."""
    path = write_greeter(tmp_path_factory.mktemp("greeter") / "greeter.gguf")
    with serving({"ref": path, "name": "greeter", "max_seqs": 1, "cache_tokens": 2 * CONTEXT,
                  "speculate": False}, heartbeat_s=BEAT, preload=True) as found:
        yield found


@pytest.fixture
def client(patient: Served) -> Iterator[Any]:
    with httpx.Client(base_url=patient.address, timeout=300) as made:
        yield made


def body_for(path: str, text: str, **more: Any) -> dict[str, Any]:
    """A request to ``path`` that says ``text``."""
    if path == "/v1/responses":
        return {"model": "greeter", "input": text, **more}
    needed = {"max_tokens": 20} if path == "/v1/messages" else {}
    return {"model": "greeter", "messages": [{"role": "user", "content": text}], **needed, **more}


def long_text(n_sentences: int = SENTENCES) -> str:
    """A text that no request had before."""
    return f"{secrets.token_hex(8)} " + SENTENCE * n_sentences


def number(client: Any, name: str) -> float:
    """The sum of a metric over its labels."""
    page = client.get("/metrics").text
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M))


def test_1_a_header_that_changes_keeps_the_cached_prefix(client: Any) -> None:
    rules = long_text()
    usages = []
    for _ in range(2):
        done = client.post("/v1/messages?beta=true", json=body_for("/v1/messages", "Hi", system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.1c0; "
             f"cc_entrypoint=cli; cch={secrets.token_hex(3)[:5]};"},
            {"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}]))
        usages.append(done.json()["usage"])
    first, second = usages
    assert first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] > 0.99 * first["input_tokens"]


@pytest.mark.parametrize("arguments", ['{"city": "Ro', "", "[1]", "no JSON", '{"a": NaN}'])
def test_3_a_broken_call_in_the_history_ends_no_conversation(client: Any, arguments: str) -> None:
    function = {"name": "weather", "arguments": arguments}
    done = client.post("/v1/chat/completions", json=body_for("/v1/chat/completions", "Hi") | {
        "messages": [{"role": "user", "content": "Weather?"},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"id": "c1", "type": "function", "function": function}]},
                     {"role": "tool", "tool_call_id": "c1", "content": "failed"},
                     {"role": "user", "content": "Never mind."}]})
    assert done.status_code == 200, done.text
    assert done.json()["choices"][0]["message"]["content"] == GREETING
    items = [{"role": "user", "content": "Weather?"},
             {"type": "function_call", "call_id": "c1", **function},
             {"type": "function_call_output", "call_id": "c1", "output": "failed"}]
    done = client.post("/v1/responses", json={"model": "greeter", "input": items})
    assert done.status_code == 200, done.text


def test_3_a_schema_beyond_what_can_be_held_is_no_reason_to_refuse(client: Any) -> None:
    schema = {"type": "object", "properties": {
        "meta": {"type": "object", "propertyNames": {"pattern": "(?=a)a"}},
        "when": {"type": "string", "format": "no-such-format"}}}
    for path, tool in (
            ("/v1/chat/completions", {"type": "function", "function": {
                "name": "f", "parameters": schema}}),
            ("/v1/responses", {"type": "function", "name": "f", "parameters": schema}),
            ("/v1/messages", {"name": "f", "input_schema": schema}),
            ("/api/chat", {"type": "function", "function": {"name": "f", "parameters": schema}})):
        done = client.post(path, json=body_for(path, "Hi", tools=[tool], stream=False))
        assert (done.status_code, GREETING in done.text) == (200, True), (path, done.text)


def test_4_what_codex_sends_is_taken(client: Any) -> None:
    def tool(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, **more}
    body = {"model": "greeter", "stream": True, "store": False, "prompt_cache_key": "a",
            "include": ["reasoning.encrypted_content"], "instructions": "Be brief.",
            "reasoning": {"effort": None, "summary": "auto"}, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [
                tool("function", name="shell", strict=False, parameters={"type": "object"}),
                tool("web_search"), tool("image_generation"), tool("local_shell"),
                tool("custom", name="apply_patch", format={"type": "grammar", "syntax": "lark",
                                                           "definition": "start: /a/"}),
                tool("namespace", name="mcp", tools=[])],
            "input": [
                {"type": "message", "role": "developer", "content": [
                    {"type": "input_text", "text": "Rules."}]},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "List files."}]},
                {"type": "reasoning", "summary": [], "encrypted_content": "Z2FyYmFnZQ=="},
                {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": [
                    {"type": "input_text", "text": "a.txt"}]},
                {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch",
                 "input": "x"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"}]}
    done = client.post("/v1/responses", json=body)
    events = [json.loads(line.removeprefix("data: ")) for line in done.text.splitlines()
              if line.startswith("data: ")]
    assert events[-1]["type"] == "response.completed", done.text
    assert events[-1]["response"]["output"][-1]["content"][0]["text"] == GREETING
    probe = client.post("/v1/responses", json={"model": "greeter", "input": [],
                                               "max_output_tokens": 1})
    assert probe.status_code == 200, probe.text
    assert client.get("/v1/models").json()["models"][0]["slug"] == "greeter"


def test_5_something_comes_while_a_prompt_is_read(client: Any) -> None:
    """Headers and a first event before it, then what each client counts as a sign of life."""
    beats = {"/v1/chat/completions": ": ping", "/v1/responses": "event: response.in_progress",
             "/v1/messages": "event: ping", "/api/chat": '"content":""'}
    first = {"/v1/chat/completions": '"role":"assistant"',
             "/v1/responses": "event: response.created", "/v1/messages": "event: message_start",
             "/api/chat": '"content":""'}
    for path in LONG_PATHS:
        with client.stream("POST", path, json=body_for(path, long_text(SENTENCES // 2),
                                                        stream=True)) as stream:
            lines = [line for line in stream.iter_lines() if line]
        assert first[path] in lines[0], (path, lines[:3])
        begins = next(i for i, line in enumerate(lines) if GREETING[:3] in line)
        n_beats = sum(beats[path] in line for line in lines[1:begins])
        assert n_beats >= 3, (path, lines[:begins])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("path", LONG_PATHS)
def test_6_nothing_is_cut_silently(client: Any, path: str, streams: bool) -> None:
    done = client.post(path, json=body_for(path, SENTENCE * TOO_MANY, stream=streams))
    assert done.status_code == 400
    n_tokens, limit = (int(found) for found in re.findall(r"\d{5,}", done.text)[:2])
    # What fits leaves room for an answer.
    assert n_tokens > CONTEXT >= limit > CONTEXT // 2, done.text


def test_6_the_window_is_told_under_every_name(client: Any) -> None:
    entry = client.get("/v1/models").json()["data"][0]
    shown = client.post("/api/show", json={"model": "greeter"}).json()
    found = [entry["context_length"], entry["max_model_len"], entry["meta"]["n_ctx"],
             client.get("/props").json()["default_generation_settings"]["n_ctx"],
             shown["model_info"]["llama.context_length"],
             client.get("/api/ps").json()["models"][0]["context_length"]]
    assert found == [CONTEXT] * 6


def endless(**more: Any) -> dict[str, Any]:
    """A request that is written for long."""
    return {"model": "greeter", "prompt": "Hi", "max_tokens": ENDLESS, "ignore_eos": True,
            "temperature": 0, **more}


@contextlib.contextmanager
def left_alone(client: Any) -> Iterator[None]:
    """What begins within must have ended soon after, but not because it was complete."""
    done = number(client, "unladen_answers_total")
    yield
    until(lambda: number(client, "unladen_requests_running") == 0)
    assert number(client, "unladen_requests_waiting") == 0
    assert number(client, "unladen_answers_total") == done


def test_8_a_stream_ends_with_its_client(client: Any, patient: Served) -> None:
    with left_alone(client), client.stream("POST", "/v1/completions",
                                           json=endless(stream=True)) as stream:
        for _, line in zip(range(20), stream.iter_lines(), strict=False):
            assert "error" not in line


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses",
                                  "/v1/messages", "/api/generate", "/completion"])
def test_8_a_whole_answer_ends_with_its_client(client: Any, patient: Served, path: str) -> None:
    """Those of this server can be begun by a prompt that takes long to read, too."""
    body = endless() if path == "/v1/completions" else (
        body_for(path, long_text()) if path.startswith("/v1") else
        {"model": "greeter", "prompt": long_text(), "stream": False})
    with left_alone(client), httpx.Client(base_url=patient.address, timeout=HASTE) as hasty, \
            pytest.raises(httpx.ReadTimeout):
        hasty.post(path, json=body)


def test_8_a_request_in_the_queue_ends_with_its_client(client: Any, patient: Served) -> None:
    with left_alone(client), client.stream("POST", "/v1/completions",
                                           json=endless(stream=True)) as stream:
        lines = stream.iter_lines()
        next(lines)
        assert number(client, "unladen_requests_running") == 1
        with httpx.Client(base_url=patient.address, timeout=HASTE) as hasty:
            with pytest.raises(httpx.ReadTimeout):
                hasty.post("/v1/completions", json=endless())
            until(lambda: number(client, "unladen_requests_waiting") == 0)
            with hasty.stream("POST", "/v1/completions", json=endless(stream=True)) as waiting:
                waited = waiting.iter_lines()  # one that is dropped closes the connection
                assert next(waited) == ": ping"
                assert number(client, "unladen_requests_waiting") == 1
            until(lambda: number(client, "unladen_requests_waiting") == 0)
        assert number(client, "unladen_requests_running") == 1  # the first one goes on


def test_8_a_prompt_is_read_no_further_than_its_client_stays(client: Any, patient: Served) -> None:
    text = long_text()
    path = "/v1/chat/completions"
    with left_alone(client), httpx.Client(base_url=patient.address, timeout=HASTE) as hasty, \
            pytest.raises(httpx.ReadTimeout):
        hasty.post(path, json=body_for(path, text))
    usage = client.post(path, json=body_for(path, text)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] < 0.9 * usage["prompt_tokens"]


def test_the_server_said_nothing_of_failures(patient: Served, client: Any) -> None:
    assert "failed" not in Path(patient.log).read_text()
    assert number(client, "unladen_restarts_total") == 0
