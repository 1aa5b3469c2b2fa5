"""What is refused: keys, scopes, limits, hosts and origins, on every route."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx
from starlette.routing import Route
from starlette.testclient import TestClient

from server.scripted import ScriptedCore, answer
from unladen.server.app import dialects, make_app
from unladen.server.keys import Key, digest_of
from unladen.server.settings import Settings

KEY, READER = "sk-the-right-key-of-many-letters", "sk-one-that-only-asks"
KEYS = (Key("owner", digest_of(KEY)), Key("reader", digest_of(READER), frozenset({"use"})))
LOCAL = "http://127.0.0.1:8080"


def client_of(settings: Settings, **more: Any) -> TestClient:
    return TestClient(make_app(ScriptedCore(answer("Hi")), settings), base_url=LOCAL, **more)


def routes(client: TestClient) -> Iterator[tuple[str, str]]:
    """Every method and path."""
    for route in client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, Route)
        for method in sorted(route.methods or ()):
            yield method, re.sub(r"\{[^}]*\}", "x", route.path)


def is_json_error(reply: httpx.Response) -> bool:
    return isinstance(reply.json().get("error"), dict | str)


@pytest.mark.parametrize("headers", [
    {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}, {"Authorization": KEY[:-1]},
    {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "Bearer sch\u00f6n".encode()}])
def test_a_wrong_key_is_refused_on_every_route(headers: Mapping[str, str]) -> None:
    client = client_of(Settings(keys=KEYS))
    asked = [*routes(client), ("GET", "/nothing"), ("POST", "/v1/nothing")]
    assert len(asked) > 10
    for method, path in asked:
        reply = client.request(method, path, headers=headers)
        assert reply.status_code == 401, (method, path)
        assert reply.headers["www-authenticate"] == "Bearer"
        assert method == "HEAD" or is_json_error(reply), (method, path)


def test_without_a_key_only_health_answers() -> None:
    client = client_of(Settings(keys=KEYS))
    open_routes = {(each.method, each.path) for dialect in dialects()
                   for each in dialect.endpoints if each.scope == "open"}
    assert open_routes <= {("HEAD", "/"), ("GET", "/")}
    open_routes |= {("GET", "/health"), ("HEAD", "/health"), ("HEAD", "/"), ("GET", "/"),
                    ("GET", "/assets/x"), ("HEAD", "/assets/x")}
    for method, path in routes(client):
        reply = client.request(method, path)
        assert (reply.status_code == 401) == ((method, path) not in open_routes), (method, path)
    assert client.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize("headers", [
    {"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}, {"x-api-key": KEY},
    {"Authorization": f"Bearer {KEY}", "x-api-key": "something"}])
def test_a_right_key_is_accepted(headers: Mapping[str, str]) -> None:
    client = client_of(Settings(keys=KEYS))
    assert client.get("/v1/models", headers=headers).status_code == 200
    assert client.get("/metrics", headers=headers).status_code == 200


def test_without_keys_any_is_accepted() -> None:
    assert client_of(Settings()).get("/v1/models", headers={
        "Authorization": "Bearer sk-whatever"}).status_code == 200


def test_a_key_has_limits() -> None:
    keys = (replace(KEYS[0], requests_per_minute=2),)
    client = client_of(Settings(keys=keys))
    headers = {"x-api-key": KEY}
    assert [client.get("/v1/models", headers=headers).status_code for _ in range(3)] == [
        200, 200, 429]
    reply = client.get("/v1/models", headers=headers)
    assert 1 <= int(reply.headers["retry-after"]) <= 30
    assert is_json_error(reply)


@pytest.mark.parametrize("host", [
    "127.0.0.1:8080", "localhost", "LOCALHOST:1", "app.localhost", "[::1]:8080", "127.8.9.1",
    "host.docker.internal:8080", "box.example"])
def test_own_hosts(host: str) -> None:
    client = client_of(Settings(hosts=("box.example",)))
    assert client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
    "192.168.1.7", "0.0.0.0:8080", "", "a b", "localhost:x", "localhost@evil.example",
    "xbox.example", "[::2]", "evil.example#.localhost"])
def test_foreign_hosts(host: str) -> None:
    client = client_of(Settings(hosts=("box.example",)))
    for method, path in [*routes(client), ("GET", "/nothing")]:
        reply = client.request(method, path, headers={"Host": host})
        assert reply.status_code == 403, (method, path)
        assert "models" not in reply.text


def test_a_server_for_others_is_asked_by_address() -> None:
    client = client_of(Settings(host="0.0.0.0", keys=KEYS))
    assert client.get("/health", headers={"Host": "192.168.1.7:8080"}).status_code == 200
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 403


def ask(client: TestClient, headers: Mapping[str, str]) -> httpx.Response:
    body = b'{"model": "tiny-chat", "messages": [{"role": "user", "content": "Hi"}]}'
    return client.post("/v1/chat/completions", content=body, headers=headers)


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "http://127.0.0.1:8080.evil.example"}, {"Origin": ""},
    {"Origin": "https://evil.example", "Content-Type": "application/json"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    {"Origin": LOCAL, "Content-Type": "text/plain"}])
def test_foreign_pages_get_no_work_done(headers: Mapping[str, str]) -> None:
    core = ScriptedCore(answer("Hi"))
    client = TestClient(make_app(core, Settings()), base_url=LOCAL)
    reply = ask(client, headers)
    assert reply.status_code == 403
    assert is_json_error(reply)
    assert not core.asked
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}])
def test_foreign_pages_are_refused_on_every_route(headers: Mapping[str, str]) -> None:
    client = client_of(Settings())
    for method, path in [*routes(client), ("GET", "/nothing")]:
        reply = client.request(method, path, headers=headers)
        assert reply.status_code == 403, (method, path)
        assert method == "HEAD" or is_json_error(reply), (method, path)


@pytest.mark.parametrize("headers", [
    {}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"},
    {"Origin": LOCAL, "Content-Type": "application/json; charset=utf-8"}])
def test_programs_and_own_pages_are_served(headers: Mapping[str, str]) -> None:
    assert ask(client_of(Settings()), headers).status_code == 200


@pytest.mark.parametrize(("named", "origin", "is_allowed"), [
    ("https://chat.example", "https://chat.example", True),
    ("https://chat.example", "https://CHAT.example", True),
    ("https://chat.example", "http://chat.example", False),
    ("https://chat.example", "https://chat.example:8443", False),
    ("https://chat.example", "https://chatxexample", False),
    ("http://localhost:*", "http://localhost:3000", True),
    ("http://localhost:*", "http://localhost:3000.evil.example", False),
    ("http://localhost:*", "http://localhost:1@evil.example", False),
    ("https://*.example", "https://a.example", True),
    ("https://*.example", "https://evil.com/.example", False),
    ("vscode-webview://*", "vscode-webview://1a2b", True), ("*", "https://any.example", True),
    ("null", "null", True)])
def test_named_origins(named: str, origin: str, is_allowed: bool) -> None:
    client = client_of(Settings(origins=(named,), keys=KEYS))
    headers = {"Origin": origin, "Content-Type": "application/json", "x-api-key": KEY}
    reply = ask(client, headers)
    assert reply.status_code == (200 if is_allowed else 403)
    assert reply.headers.get("access-control-allow-origin") == (origin if is_allowed else None)
    assert "access-control-allow-credentials" not in reply.headers
    assert reply.headers["vary"] == "Origin"
    before = client.options("/v1/chat/completions", headers={
        "Origin": origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, x-stainless-os, a b"})
    assert before.status_code == (204 if is_allowed else 403)
    assert before.headers.get("access-control-allow-headers") == (
        "content-type, x-stainless-os" if is_allowed else None)
    wrong = client.get("/v1/models", headers={"Origin": origin, "x-api-key": "wrong"})
    assert wrong.status_code == (401 if is_allowed else 403)
    assert wrong.headers.get("access-control-allow-origin") == (origin if is_allowed else None)
