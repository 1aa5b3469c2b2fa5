"""Complaint 10: open doors. A server on this machine is reached by every web page that a browser
here shows, unless it looks at who asks.

Each request here is one that a browser sends for a page of another site. All routes of the server
that runs are tried, as its description lists them."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from clients.serving import Served, serving
from unladen.hub import INCLUDED

EVIL = "https://evil.example"
ALLOW = "access-control-allow-"
"""Headers begin so that let a page read an answer."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server that loads its model for the first request that does any work."""
    with serving({"ref": "tiny-chat"}, preload=False, allow_any=True) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    """Its answers must leave the model unloaded."""
    with httpx.Client(base_url=served.address, timeout=300) as made:
        yield made
        assert made.get("/api/ps").json() == {"models": []}
        numbers = made.get("/metrics").text
        assert "unladen_tokens_total{" not in numbers, "something was computed"


@pytest.fixture
def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """Every method and path."""
    described = client.get("/openapi.json").json()["paths"]
    found = [(method.upper(), re.sub(r"\{[^}]*\}", "x", path))
             for path, methods in described.items() for method in methods]
    assert len(found) > 30
    return found


def body_of(stream: bool = False) -> bytes:
    """A body that every route which computes something takes."""
    return json.dumps({
        "model": "tiny-chat", "messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi",
        "input": "Hi", "content": "Hi", "max_tokens": 4, "query": "Hi", "documents": ["Hi"],
        "input_prefix": "a", "input_suffix": "b", "tokens": [5], "stream": stream}).encode()


def is_shut(reply: httpx.Response) -> bool:
    """Whether the request was refused, and no page may read why."""
    return reply.status_code == 403 and not any(
        name.startswith(ALLOW) for name in reply.headers) and "tiny" not in reply.text


@pytest.mark.parametrize("headers", [
    {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}, {"Origin": EVIL}, {"Origin": "null"},
    {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}])
@pytest.mark.parametrize("kind", ["text/plain;charset=UTF-8", "application/json"])
def test_10_a_foreign_page_gets_no_work_done(client: httpx.Client, routes: list[tuple[str, str]],
                                             headers: dict[str, str], kind: str) -> None:
    """A browser sends text without asking first, and so a form; JSON only after it has asked."""
    headers = {**headers, "Content-Type": kind}
    for method, path in routes:
        reply = client.request(method, path, headers=headers, content=body_of())
        assert is_shut(reply), (method, path, reply.status_code)


def test_10_a_foreign_page_is_allowed_nothing_beforehand(client: httpx.Client,
                                                         routes: list[tuple[str, str]]) -> None:
    for origin in (EVIL, "null", "http://localhost:3000"):
        for method, path in routes:
            reply = client.options(path, headers={
                "Origin": origin, "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": "content-type, authorization",
                "Access-Control-Request-Private-Network": "true"})
            assert is_shut(reply), (origin, method, path)


def test_10_a_name_that_leads_here_is_no_name_of_the_server(
        client: httpx.Client, routes: list[tuple[str, str]]) -> None:
    """DNS rebinding: the browser takes the page and the server for one site, so it lets the page
    read the answers; only Host tells."""
    port = client.base_url.port
    for host in (f"evil.example:{port}", "evil.example", f"127.0.0.1.evil.example:{port}",
                 f"localhost.evil.example:{port}", "192.168.1.7", f"0.0.0.0:{port}"):
        for method, path in routes:
            reply = client.request(method, path, content=body_of(), headers={
                "Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin",
                "Content-Type": "application/json"})
            assert is_shut(reply), (host, method, path)


def test_10_nothing_is_reflected_for_those_who_may_ask(client: httpx.Client) -> None:
    """A program without a browser gets its answer, and no header lets a page read it."""
    for path in ("/v1/models", "/api/tags", "/props", "/health", "/metrics"):
        reply = client.get(path)
        assert reply.status_code == 200
        assert not any(name.startswith(ALLOW) for name in reply.headers), path


def test_names_of_models_dont_leave_the_store(tmp_path: Path) -> None:
    """Every route that takes a model's name is asked for a file that is really there, by its path;
    and one route by all ways to write a path."""
    shutil.copy(INCLUDED["tiny-chat"], tmp_path / "there.gguf")
    path, relative = str(tmp_path / "there.gguf"), os.path.relpath(tmp_path / "there.gguf")
    up = "../" * 30 + path.lstrip("/")
    names = [path, relative, up, f"./{relative}", f"file://{path}", f"tiny-chat/{up}",
             f"org/repo:{up}", f"org/{up}", f"hf.co/{up}", f"hf.co/org/repo:{up}", f"{path}\0",
             up.replace("/", "%2f"), up.replace("/", "\\"), "~/there.gguf", f"x={path}"]
    with serving({"ref": "tiny-chat"}, allow_any=True) as served, \
            httpx.Client(base_url=served.address, timeout=300) as client:
        described = client.get("/openapi.json").json()
        asked = [each for each, methods in described["paths"].items() if takes_a_model(
            methods.get("post", {}), described["components"]["schemas"])]
        assert len(asked) > 15

        def statuses(route: str, name: str) -> int:
            body = {**json.loads(body_of()), "model": name, "name": name}
            if route == "/v1/responses":
                del body["prompt"]  # there it names a stored prompt
            return client.post(route, json=body).status_code

        for route in asked:
            # This model makes no embeddings, which is found out after its name was taken.
            assert statuses(route, "tiny-chat") in (200, 400), f"{route} would refuse any name"
            # The name that a model gets is checked before one is looked for.
            assert statuses(route, path) == (400 if route == "/api/create" else 404), route
        for name in names:
            assert statuses("/v1/chat/completions", name) == 404, name
            quoted = urllib.parse.quote(name, safe="")
            assert client.get(f"/v1/models/{quoted}").status_code == 404, name
            assert client.get("/props", params={"model": name}).status_code == 404, name
        assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["tiny-chat"]


def takes_a_model(operation: dict[str, Any], schemas: dict[str, Any]) -> bool:
    """Whether the body of ``operation`` has a model's name."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    schema = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return "model" in schema.get("properties", {})
