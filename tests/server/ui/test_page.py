"""The page's files are sent with their headers, without a key, and nothing else is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from server.scripted import ScriptedCore
from unladen.server.app import make_app
from unladen.server.keys import Key, digest_of
from unladen.server.settings import Settings

SCRIPT = b"export const answer = 42;\n" * 40


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    folder = tmp_path / "page"
    (folder / "assets" / "deep").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>unladen</title>")
    (folder / "assets" / "app-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT, mtime=0))
    (folder / "assets" / "deep" / "font.woff2").write_bytes(b"wOF2")
    (folder / "secret.txt").write_text("no")
    (tmp_path / "outside.js").write_text("no")
    settings = Settings(keys=(Key("a", digest_of("right")),))
    return TestClient(make_app(ScriptedCore(), settings, page_folder=folder),
                      base_url="http://127.0.0.1")


def test_the_page_needs_no_key(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    for header, word in (("content-security-policy", "trusted-types 'none'"),
                         ("content-security-policy", "default-src 'none'"),
                         ("x-content-type-options", "nosniff"),
                         ("referrer-policy", "no-referrer")):
        assert word in answer.headers[header]
    assert client.get("/ui/api/state").status_code == 401
    assert client.get("/ui/api/state").json()["error"]["code"] == "no_key"


def test_files_are_packed_for_those_who_take_it(client: TestClient) -> None:
    at = "/assets/app-1a2b.js"
    plain = client.get(at, headers={"accept-encoding": "gzip;q=0"})
    packed = client.get(at, headers={"accept-encoding": "br, gzip"})
    assert plain.content == packed.content == SCRIPT
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(SCRIPT)
    for answer in (plain, packed):
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["vary"] == "Accept-Encoding"
    assert client.get("/assets/deep/font.woff2").headers["content-type"] == "font/woff2"


@pytest.mark.parametrize("path", [
    "/assets/../secret.txt", "/assets/%2e%2e/secret.txt", "/assets/..%2fsecret.txt",
    "/assets/%2e%2e/%2e%2e/outside.js", "/assets//etc/passwd", "/assets/%2fetc%2fpasswd",
    "/assets/deep", "/assets/", "/assets/app-1a2b.js%00", "/secret.txt", "/assets/.hidden",
    "/assets/app-1a2b.js/x", "/assets/" + "x" * 3000])
def test_nothing_else_is_sent(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"x-api-key": "right"})
    assert answer.status_code == 404
    assert set(answer.json()["error"]) >= {"message"}


def test_a_server_without_the_page_says_so(tmp_path: Path) -> None:
    client = TestClient(make_app(ScriptedCore(), Settings(), page_folder=tmp_path / "none"),
                        base_url="http://127.0.0.1")
    assert client.get("/").json()["error"]["hint"]
    assert client.head("/").status_code == 200  # Ollama's clients look whether it is there
