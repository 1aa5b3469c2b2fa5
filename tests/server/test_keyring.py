"""Keys of a file that changes while the server runs."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from server.scripted import ScriptedCore, answer
from unladen.errors import InvalidArgument
from unladen.server import keyring
from unladen.server.app import make_app
from unladen.server.keyring import KeyRing
from unladen.server.keys import Key, add_key, digest_of
from unladen.server.settings import Settings

OWN = Key("command-line", digest_of("own"))


def names(ring: KeyRing) -> list[str]:
    return [key.name for key in ring.accepted()]


def test_a_key_that_is_added_or_removed_counts_at_the_next_request(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    one = add_key(path, "one")
    client = TestClient(make_app(ScriptedCore(answer("Hi")), Settings(key_file=path, keys=(OWN,))),
                        base_url="http://127.0.0.1:8080")

    def status(key: str) -> int:
        return client.get("/v1/models", headers={"x-api-key": key}).status_code

    assert (status(one), status("own"), status("two")) == (200, 200, 401)
    two = add_key(path, "two")
    assert (status(one), status(two)) == (200, 200)
    lines = path.read_text().split("\n\n")
    path.write_text(lines[1])
    assert (status(one), status(two), status("own")) == (401, 200, 200)


def test_the_log_says_what_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.toml"
    add_key(path, "one")
    ring = KeyRing([OWN], path)
    caplog.set_level(logging.INFO, "unladen.server")
    assert names(ring) == ["command-line", "one"]
    assert not caplog.messages
    secret = add_key(path, "two")
    assert names(ring) == ["command-line", "one", "two"]
    assert caplog.messages == [f"{path} has changed: new: two"]
    text = path.read_text().replace('name = "one"', 'name = "three"').replace(
        'scopes = ["use", "manage"]', 'scopes = ["use"]')
    path.write_text(text)
    assert names(ring) == ["command-line", "three", "two"]
    assert caplog.messages[1:] == [f"{path} has changed: new: three; changed: two; gone: one"]
    assert secret not in caplog.text


@pytest.mark.parametrize("text", [None, "", "[[keys", "keys = []", '[[keys]]\nname = "x"\n'])
def test_a_broken_file_keeps_the_old_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                          text: str | None) -> None:
    path = tmp_path / "keys.toml"
    add_key(path, "one")
    good = path.read_text()
    ring = KeyRing([], path)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    for _ in range(3):
        assert names(ring) == ["one"]
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1
    assert str(path) in said[0].message and "still accepted" in said[0].message
    caplog.clear()
    path.write_text(good)
    path.chmod(0o600)
    assert names(ring) == ["one"]
    add_key(path, "two")
    assert names(ring) == ["one", "two"]
    assert not [record for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_that_others_can_read_by_now_changes_nothing(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.toml"
    add_key(path, "one")
    ring = KeyRing([], path)
    add_key(path, "two")
    path.chmod(0o644)
    assert names(ring) == ["one"]
    assert "others can read" in caplog.text
    path.chmod(0o600)
    assert names(ring) == ["one", "two"]


def test_a_file_that_can_not_be_used_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="can't read this key file"):
        KeyRing([], tmp_path / "none.toml")


def test_nobody_asks_and_the_log_says_it_all_the_same(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "LOOK_SECONDS", 0.01)
    caplog.set_level(logging.INFO, "unladen.server")
    path = tmp_path / "keys.toml"
    add_key(path, "one")

    async def look() -> None:
        watching = asyncio.ensure_future(KeyRing([], path).watch())
        await asyncio.sleep(0)
        add_key(path, "two")
        async with asyncio.timeout(60):
            while "new: two" not in caplog.text:
                await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(look())
