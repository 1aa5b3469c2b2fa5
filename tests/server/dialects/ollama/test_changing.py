"""Clients copy, make, remove and download models where the operator lets them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from hub.conftest import cache as cache
from hub.conftest import hub as hub
from hub.pretend_hub import CONTENT, Pretend
from hub.stores.conftest import no_stores as no_stores
from server.hosting import CHAT, hosting, run
from server.live import live
from server.scripted import ScriptedCore
from unladen.hub.modelfile import parse
from unladen.hub.stores import find
from unladen.server.app import make_app
from unladen.server.faults import Fault
from unladen.server.settings import Settings

ANY = Settings(allow_any=True)


@contextlib.contextmanager
def talking(core: Any, settings: Settings = ANY) -> Iterator[tuple[Any, str]]:
    """The ``ollama`` package's client of a server of ``core``, and the server's address."""
    with live(make_app(core, settings)) as address:
        client = ollama.Client(host=address)
        with contextlib.closing(client._client):
            yield client, address


def test_what_is_asked_for() -> None:
    core = ScriptedCore()
    with talking(core) as (client, address):
        assert client.copy("tiny-chat:latest", "mine").status == "success"
        assert client.delete("mine").status == "success"
        made = client.create("keeper", from_="tiny-chat", system="Be brief.", license=["MIT"],
                             template="{{ .Prompt }}", parameters={"stop": ["a"], "top_k": 3},
                             messages=[{"role": "user", "content": "Ahoy"}])
        assert made.status == "success"
        assert [line.status for line in client.create("b", from_="tiny", stream=True)] == [
            "reading model metadata", "success"]
        old = httpx.post(f"{address}/api/create", json={
            "name": "old", "modelfile": "FROM tiny", "stream": False})
        assert old.json() == {"status": "success"}
        assert client.pull("org/repo").status == "success"
    (copy, delete, create, streamed, older, pull) = core.changes
    assert copy == ("copy", {"source": "tiny-chat", "name": "mine"})
    assert delete == ("remove", {"name": "mine"})
    assert (create[0], create[1]["name"]) == ("create", "keeper")
    found = parse(create[1]["modelfile"])
    assert (found.sources, found.last("SYSTEM")) == (("tiny-chat",), "Be brief.")
    assert found.parameters == {"stop": ["a"], "top_k": 3}
    assert found.messages == [{"role": "user", "content": "Ahoy"}]
    assert (found.last("TEMPLATE"), found.every("LICENSE")) == ("{{ .Prompt }}", ("MIT",))
    assert parse(streamed[1]["modelfile"]).sources == ("tiny",)
    assert older == ("create", {"name": "old", "modelfile": "FROM tiny"})
    assert pull == ("pull", {"name": "org/repo"})


def test_a_download_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unladen.server.dialects.ollama.changing.PROGRESS_S", 0.05)
    with talking(ScriptedCore([0.5])) as (client, _):
        lines = [*client.pull("org/repo", stream=True)]
    assert lines[0].status == "pulling manifest" and lines[-1].status == "success"
    assert (lines[1].completed, lines[1].total) == (500, 1000)


def test_what_is_refused() -> None:
    core = ScriptedCore()
    with talking(core, Settings()) as (client, _):
        for ask in (lambda: client.copy("tiny-chat", "b"), lambda: client.delete("tiny-chat"),
                    lambda: client.create("b", from_="tiny")):
            with pytest.raises(ollama.ResponseError, match="allow_any") as error:
                ask()
            assert error.value.status_code == 403
        with pytest.raises(ollama.ResponseError, match="downloads nothing"):
            client.pull("org/repo")
        assert client.pull("tiny-chat").status == "success"
    with talking(core) as (client, address):
        for more in ({"files": {"a": "sha256:0"}}, {"adapters": {"a": "sha256:0"}},
                     {"quantize": "q4_0"}):
            with pytest.raises(ollama.ResponseError, match="can't be given"):
                client.create("b", from_="tiny", **more)
        for path, body in (("create", {"model": "b"}), ("create", {"from": "tiny"}),
                           ("copy", {"source": "a", "destination": ""}), ("copy", {"source": "a"}),
                           ("create", {"model": "b", "from": "tiny", "messages": [{"role": 1}]})):
            reply = httpx.post(f"{address}/api/{path}", json=body)
            assert reply.status_code == 400 and reply.json()["error"], (path, body)
    assert core.changes == []
    with talking(ScriptedCore([Fault("unknown_model", "there is none")])) as (client, _):
        with pytest.raises(ollama.ResponseError, match="there is none") as error:
            client.delete("b")
        assert error.value.status_code == 404
        with pytest.raises(ollama.ResponseError, match="there is none"):
            for _ in client.pull("org/repo", stream=True):
                pass


@pytest.mark.skipif(sys.platform != "linux", reason="looks for workers in /proc")
def test_a_supervisor_changes_the_stores(no_stores: Path, tmp_path: Path) -> None:
    file = tmp_path / "secret.gguf"
    file.write_bytes(b"GGUF")

    async def test() -> None:
        async with hosting(CHAT, allow_any=True) as core:
            await core.change("create", {"name": "keeper", "modelfile":
                                         "FROM tiny-chat\nSYSTEM One.\n"})
            assert [card.name for card in core.cards()] == ["tiny-chat", "keeper"]
            assert (await core.card("keeper")).preset["system"] == "One."
            await core.load("keeper:latest")
            assert [card.name for card in core.cards()] == ["tiny-chat", "keeper"]
            await core.change("create", {"name": "Keeper:latest", "modelfile":
                                         "FROM tiny-chat\nSYSTEM Two.\n"})
            assert (await core.card("keeper")).preset["system"] == "Two."
            assert (await core.card("keeper")).state == "unloaded"
            await core.change("copy", {"source": "keeper", "name": "you/copy:v1"})
            assert (await core.card("you/copy:v1")).preset["system"] == "Two."
            await core.change("remove", {"name": "you/copy:v1"})
            assert find("you/copy:v1") is None
            assert "you/copy:v1" not in [card.name for card in core.cards()]
            for what, given, kind in (
                    ("remove", {"name": "tiny-chat"}, "forbidden"),
                    ("remove", {"name": "none"}, "unknown_model"),
                    ("copy", {"source": str(file), "name": "a"}, "unknown_model"),
                    ("copy", {"source": "../secret.gguf", "name": "a"}, "unknown_model"),
                    ("copy", {"source": "nobody/has-this", "name": "a"}, "unknown_model"),
                    ("copy", {"source": "keeper", "name": "../a"}, "bad_request"),
                    ("create", {"name": "a", "modelfile": f"FROM {file}"}, "unknown_model"),
                    ("create", {"name": "a", "modelfile": f"FROM tiny\nFROM {file}"},
                     "unknown_model"),
                    ("create", {"name": "a", "modelfile":
                                f"FROM tiny\nVISION_PROJECTOR {file}"}, "unknown_model"),
                    ("pull", {"name": str(file)}, "unknown_model"),
                    ("create", {"name": "a", "modelfile": "FRM tiny"}, "bad_request")):
                with pytest.raises(Fault) as caught:
                    await core.change(what, given)
                assert caught.value.kind == kind, (what, given, caught.value)
            assert find("a") is None
    run(test)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for workers in /proc")
def test_a_supervisor_downloads(hub: Pretend, no_stores: Path, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    told: list[tuple[float, float]] = []

    async def test() -> None:
        async with hosting(CHAT, allow_any=True) as core:
            await core.change("pull", {"name": "org/repo:Q8_0"},
                              lambda n, total: told.append((n, total)))
            with pytest.raises(Fault, match="the hub has no no/thing"):
                await core.change("pull", {"name": "no/thing"})
    run(test)
    assert told and all(0 < n <= total == len(CONTENT) for n, total in told)
    files = list((tmp_path / "home").rglob("*.gguf"))
    assert [path.read_bytes() == CONTENT for path in files] == [True]
