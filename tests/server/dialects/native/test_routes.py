"""llama-server's own routes, with answers that the tests write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from server.scripted import ScriptedCore, answer, ended
from unladen.server.app import make_app
from unladen.server.asked import Text
from unladen.server.events import Begun, Piece, Probabilities
from unladen.server.faults import Fault
from unladen.server.settings import Settings


@pytest.fixture
def core() -> ScriptedCore:
    return ScriptedCore(answer("Good ", "day."))


@pytest.fixture
def client(core: ScriptedCore) -> TestClient:
    return TestClient(make_app(core, Settings(hosts=("testserver",))))


def test_a_completion(client: TestClient, core: ScriptedCore) -> None:
    done = client.post("/completion", json={
        "prompt": "Hi", "n_predict": 9, "temperature": 0.5, "repeat_last_n": 3, "seed": 1,
        "logit_bias": [[7, -1.5], [8, False]], "samplers": ["top_k"], "unknown": 1,
        "json_schema": {"type": "object"}}).json()
    assert (done["content"], done["stop_type"], done["stop"]) == ("Good day.", "eos", True)
    assert (done["tokens_evaluated"], done["tokens_predicted"], done["tokens_cached"]) == (11, 5, 3)
    assert core.asked[-1][1] == Text(prompt="Hi", parameters={
        "temperature": 0.5, "penalty_last_n": 3, "order": ["top_k"], "max_tokens": 9, "seed": 1,
        "logit_bias": {"7": -1.5, "8": -1e6},
        "response_format": {"type": "json_schema", "schema": {"type": "object"}}})


def test_a_stream_of_a_completion(client: TestClient, core: ScriptedCore) -> None:
    core.script = [Begun(11), Probabilities(0, [(5, "a", -0.5, [(6, "b", -1.5)])]), Piece(0, "a"),
                   ended("stop", stop="x")]
    done = client.post("/completion", json={"prompt": [1, 2], "stream": True, "n_probs": 1})
    events = [json.loads(line.removeprefix("data: ")) for line in done.text.split("\n\n") if line]
    assert events[0]["completion_probabilities"][0]["top_logprobs"][0]["token"] == "b"
    assert (events[-1]["stop_type"], events[-1]["stopping_word"]) == ("word", "x")


def test_infill(client: TestClient, core: ScriptedCore) -> None:
    client.post("/infill", json={"input_prefix": "def f(", "input_suffix": "return x",
                                 "input_extra": [{"filename": "a", "text": "A = 1"}]})
    assert core.asked[-1][1] == Text(prompt="A = 1\ndef f(", suffix="return x")


def test_tokens(client: TestClient) -> None:
    assert client.post("/tokenize", json={"content": "ab"}).json() == {"tokens": [97, 98]}
    pieces = client.post("/tokenize", json={"content": "\u00e9", "with_pieces": True}).json()
    assert pieces == {"tokens": [{"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]}
    assert client.post("/detokenize", json={"tokens": [97, 98]}).json() == {"content": "ab"}
    shown = client.post("/apply-template", json={"messages": [{"role": "user", "content": "Hi"}]})
    assert shown.json()["prompt"] == "<user>Hi"


def test_ranks_and_vectors(client: TestClient) -> None:
    ranked = client.post("/v1/rerank", json={"query": "a", "documents": ["x", "xyz", "xy"],
                                             "top_n": 2}).json()
    assert [each["index"] for each in ranked["results"]] == [1, 2]
    found = client.post("/embedding", json={"content": "a"}).json()
    assert len(found[0]["embedding"][0]) == 128


def test_models(client: TestClient) -> None:
    shown = client.get("/props").json()
    assert shown["n_ctx"] == shown["default_generation_settings"]["n_ctx"] == 1024
    assert "/models/chat.gguf" not in json.dumps(shown)
    assert client.post("/models/unload", json={"model": "small"}).json()["success"]
    assert client.get("/models").json()["data"][0]["status"]["value"] == "unloaded"
    assert client.post("/models/load", json={"model": "tiny-chat"}).json()["status"][
        "value"] == "loaded"
    assert client.get("/slots").json() == []


@pytest.mark.parametrize(("path", "body"), [
    ("/completion", {"prompt": 7}), ("/completion", {"prompt": "", "n_predict": "x"}),
    ("/completion", {"prompt": "", "logit_bias": [1]}), ("/tokenize", {"content": 7}),
    ("/tokenize", {}), ("/detokenize", {"tokens": ["a"]}), ("/rerank", {"query": "a"}),
    ("/completion", {"prompt": "", "grammar": "x", "json_schema": {}}), ("/embedding", {}),
    ("/apply-template", {"messages": []}), ("/models/load", {})])
def test_wrong_fields_are_refused(client: TestClient, path: str, body: dict[str, Any]) -> None:
    done = client.post(path, json=body)
    assert (done.status_code, done.json()["error"]["code"]) == (400, 400)


def test_an_overflow_has_both_numbers(client: TestClient, core: ScriptedCore) -> None:
    core.script = [Fault("overflow", "too long", n_tokens=9, limit=8)]
    error = client.post("/completion", json={"prompt": "a"}).json()["error"]
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == (
        "exceed_context_size_error", 9, 8)
