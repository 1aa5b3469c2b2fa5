"""Metrics count what clients got, and clients can't make up labels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import Response
from starlette.testclient import TestClient

from server.scripted import CARD, ScriptedCore, answer, ended
from unladen.server.app import make_app
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.settings import Settings
from unladen.server.streaming import Streamed

LOCAL = "http://127.0.0.1"


def numbers(client: TestClient) -> dict[tuple[str, ...], float]:
    """Every number by its name and the values of its labels."""
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for sample in family.samples}


def test_numbers_are_what_clients_got() -> None:
    card = replace(CARD, running=2, waiting=5, n_restarts=3, n_evictions=1,
                   n_blocks=64, n_blocks_held=7, experts=(9, 4), device_bytes={"cpu": 4096})
    body = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
    with TestClient(make_app(ScriptedCore(answer("a", "b"), (card,)), Settings()),
                    base_url=LOCAL) as client:  # all requests in one event loop
        for stream in (False, True, True):
            assert client.post("/v1/chat/completions", json={**body, "stream": stream}).is_success
        assert client.post("/v1/chat/completions", json={}).status_code == 400
        client.post("/v1/embeddings", json={"model": "small", "input": ["abc", "de"]})
        found, one = numbers(client), ended()
    model = "tiny-chat"
    assert found["unladen_tokens_total", "completion", model] == 3 * one.n_completion
    assert found["unladen_tokens_total", "prompt", model] == 3 * one.n_prompt + 5
    assert found["unladen_tokens_total", "cached", model] == 3 * one.n_cached
    assert found["unladen_answers_total", model, "end"] == 3
    assert found["unladen_first_token_seconds_count", model] == 3
    assert found["unladen_token_seconds_count", model] == 3
    route = "/v1/chat/completions"
    assert found["unladen_requests_total", "openai", route, "200"] == 3
    assert found["unladen_requests_total", "openai", route, "400"] == 1
    assert found["unladen_faults_total", "bad_request"] == 1
    assert found["unladen_requests_running", model] == 2
    assert found["unladen_requests_waiting", model] == 5
    assert found["unladen_cache_blocks", model] == 64
    assert found["unladen_cache_blocks_held", model] == 7
    assert found["unladen_expert_choices_total", model] == 9
    assert found["unladen_expert_hits_total", model] == 4
    assert found["unladen_restarts_total", model] == 3
    assert found["unladen_evictions_total", model] == 1
    assert found["unladen_model_bytes", "cpu", model] == 4096


def test_a_stream_that_fails_after_its_first_byte_is_counted() -> None:
    async def broken(exchange: Exchange) -> Response:
        async def chunks() -> AsyncGenerator[bytes, None]:
            yield b"begun, "
            raise RuntimeError("broken")
        return Streamed(chunks(), AsyncExitStack(), failed=lambda fault: fault.kind.encode(),
                        heartbeat=lambda: b"", interval=60)

    dialect = Dialect("broken", [Endpoint("GET", "/broken", broken, "breaks")], ("/broken",),
                      lambda fault: (fault.status, {}, {}))
    client = TestClient(make_app(ScriptedCore(), Settings(), [dialect]), base_url=LOCAL)
    assert client.get("/broken").text == "begun, internal"
    assert numbers(client)["unladen_faults_total", "internal"] == 1


def test_clients_make_up_no_labels() -> None:
    client = TestClient(make_app(ScriptedCore(answer("a")), Settings()), base_url=LOCAL)
    before = len(numbers(client))
    for i in range(20):
        client.get(f"/nothing/{i}")
        client.get(f"/v1/models/{i}")
        client.post("/v1/chat/completions", json={"model": f"m{i}", "messages": [
            {"role": "user", "content": "Hi"}]})
    many = len(numbers(client))
    assert many - before < 120
    client.get("/nothing/one-more")
    client.get("/v1/models/one-more")
    assert len(numbers(client)) == many


def test_answers_and_texts_of_a_request_are_bounded() -> None:
    core = ScriptedCore(answer("a"))
    client = TestClient(make_app(core, Settings(max_answers=4, max_inputs=3)), base_url=LOCAL)
    body = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
    for n in (5, 10**9):
        reply = client.post("/v1/chat/completions", json={**body, "n": n})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "n"
    reply = client.post("/v1/completions", json={"model": "small", "prompt": ["a", "b", "c"],
                                                 "n": 2})
    assert reply.status_code == 400
    reply = client.post("/v1/embeddings", json={"model": "small", "input": ["a"] * 4})
    assert reply.status_code == 400
