"""The application finds dialects, checks bodies and answers errors in each dialect's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient

from server.scripted import ScriptedCore
from unladen.server.app import make_app
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.settings import Settings


class Body(BaseModel):
    text: str
    times: int = 1


async def _echo(exchange: Exchange) -> Response:
    if exchange.body.text == "no":
        raise Fault("full", "too many", retry_after=7)
    return JSONResponse({"said": exchange.body.text * exchange.body.times})


def _error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    return fault.status, {"problem": fault.kind, "field": fault.param}, {}


ECHO = Dialect("echo", [Endpoint("POST", "/echo", _echo, "says it again", body=Body)], ("/",),
               _error)


@pytest.fixture
def client() -> TestClient:
    settings = Settings(max_body_bytes=1000, max_nesting=5, hosts=("testserver",))
    return TestClient(make_app(ScriptedCore(), settings, [ECHO]))


def test_a_body_is_read_and_checked(client: TestClient) -> None:
    assert client.post("/echo", json={"text": "a", "times": 3, "unknown": 1}).json() == {
        "said": "aaa"}
    wrong = client.post("/echo", json={"text": "a", "times": "many"})
    assert (wrong.status_code, wrong.json()) == (400, {"problem": "bad_request",
                                                       "field": "times"})


@pytest.mark.parametrize(("content", "kind"), [
    (b"", "bad_request"), (b"{", "bad_request"), (b"[]", "bad_request"), (b"\xff", "bad_request"),
    (b'{"text": NaN}', "bad_request"), (b"[" * 9 + b"]" * 9, "too_large"),
    (b'{"text": "' + b"x" * 2000 + b'"}', "too_large")])
def test_a_hostile_body_is_refused(client: TestClient, content: bytes, kind: str) -> None:
    answer = client.post("/echo", content=content)
    assert answer.json()["problem"] == kind
    assert answer.headers["x-request-id"].startswith("req_")


def test_brackets_in_texts_are_no_nesting(client: TestClient) -> None:
    assert client.post("/echo", json={"text": "[{" * 40 + '"\\'}).status_code == 200


def test_faults_and_missing_routes(client: TestClient) -> None:
    full = client.post("/echo", json={"text": "no"})
    assert (full.status_code, full.headers["retry-after"]) == (429, "7")
    assert client.get("/nothing").json()["problem"] == "not_found"
    assert client.get("/echo").json()["problem"] == "wrong_method"
