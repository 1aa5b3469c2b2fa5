"""The description of the API is valid OpenAPI, and has every route."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.routing import Route
from starlette.testclient import TestClient

from server.scripted import ScriptedCore, answer
from unladen.server.app import make_app
from unladen.server.keys import Key, digest_of
from unladen.server.settings import Settings

LOCAL = "http://127.0.0.1"
HEADERS = {"x-api-key": "right"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    settings = Settings(keys=(Key("a", digest_of("right")),))
    return TestClient(make_app(ScriptedCore(answer("Hi")), settings), base_url=LOCAL,
                      headers=HEADERS)


@pytest.fixture(scope="module")
def described(client: TestClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def test_every_route_is_described(client: TestClient, described: dict[str, Any]) -> None:
    for route in client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, Route)
        path = re.sub(r":\w+\}", "}", route.path)
        methods = {each.upper() for each in described["paths"][path]}
        assert methods & (route.methods or set())
    operations = [each for path in described["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))
    assert all(each["summary"] for each in operations)


def test_it_is_valid(described: dict[str, Any]) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(described)


def test_references_lead_somewhere(described: dict[str, Any]) -> None:
    def follow(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                assert reference.rpartition("/")[2] in described["components"]["schemas"]
            for each in value.values():
                follow(each)
        elif isinstance(value, list):
            for each in value:
                follow(each)
    assert described["openapi"].startswith("3.1")
    follow(described)


def test_errors_are_as_described(client: TestClient, described: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if method == "head" or path in ("/health", "/", "/assets/{name}"):
                continue
            reply = client.request(method, re.sub(r"\{\w+\}", "x", path),
                                   headers={"x-api-key": "wrong"})
            schema = operation["responses"]["401"]["content"]["application/json"]["schema"]
            jsonschema.validate(reply.json(), {**schema, "components": described["components"]})
            assert operation["security"] == [{"bearer": []}, {"key": []}]
            if "requestBody" in operation:
                reply = client.request(method, re.sub(r"\{\w+\}", "x", path), content=b"[1")
                assert reply.status_code == 400
                jsonschema.validate(reply.json(), {**schema,
                                                   "components": described["components"]})


def test_without_keys_none_are_asked_for() -> None:
    client = TestClient(make_app(ScriptedCore(), Settings()), base_url=LOCAL)
    operation = client.get("/openapi.json").json()["paths"]["/v1/models"]["get"]
    assert "security" not in operation
    assert "401" not in operation["responses"]
