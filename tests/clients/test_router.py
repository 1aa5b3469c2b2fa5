"""Complaint 9: a router dies with three models, runs out of memory when one wakes, and nobody can
tell whether a model was unloaded, crashed or can't be loaded."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from clients.serving import WAIT, Served, serving
from server.hosting import is_alive, until

LONG = "Tell me of the sea. " * 20
"""A question with many tokens, so that it shows whether they are read again."""
KEPT = 0.8
"""The share of a conversation that its model has after it was unloaded and loaded again."""
ROOM: list[tuple[dict[str, object], int, int]] = [({"max_loaded": 2}, 3, 2),
                                                  ({"memory_share": 0.01}, 2, 1)]
"""Settings, the models that are asked for, and how many of them may be in memory. No device has
99 % of its memory free, so with the second one no model fits beside another."""


@contextlib.contextmanager
def client_of(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address, timeout=300) as made:
        yield made


def ask(client: httpx.Client, model: str, text: str, **more: Any) -> dict[str, Any]:
    """The answer to a question, which must not fail."""
    done = client.post("/v1/chat/completions", json={
        "model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 8,
        "temperature": 0, **more})
    assert done.status_code == 200, done.text
    found: dict[str, Any] = done.json()
    return found


def loaders(served: Served) -> list[int]:
    """The workers that have a model or load it; others look at files only."""
    found = []
    for pid in served.workers():
        with contextlib.suppress(OSError, ValueError):  # it has ended: no file, or an empty one
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            after = arguments[arguments.index(b"unladen.server.worker") + 1:]
            if len(after) == 2 and is_alive(pid):  # its server, and a file for conversations
                found.append(pid)
    return found


@contextlib.contextmanager
def counted(served: Served) -> Iterator[list[int]]:
    """How many models are in memory, looked at again and again by a thread."""
    counts: list[int] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(WAIT):
            counts.append(len(loaders(served)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield counts
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize(("settings", "n_models", "n_most"), ROOM)
def test_9_models_share_less_memory_than_they_need(settings: dict[str, object], n_models: int,
                                                   n_most: int) -> None:
    """They are asked in turns and all at once; each wakes into memory that another one has."""
    names = ("first", "second", "third")[:n_models]
    with serving(*({"ref": "tiny-chat", "name": name} for name in names), preload=False,
                 **settings) as served, client_of(served) as client, counted(served) as counts:
        before = {name: ask(client, name, f"{name}: {LONG}") for name in names}
        with ThreadPoolExecutor() as threads:
            all(threads.map(lambda name: ask(client, name, "Hello"), names))
        for name in names:
            again = ask(client, name, f"{name}: {LONG}")
            usage = again["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] > KEPT * usage["prompt_tokens"]
            assert again["choices"] == before[name]["choices"]
        assert client.get("/health").status_code == 200
        numbers = client.get("/metrics").text
        assert 'unladen_evictions_total{model="first"} 0.0' not in numbers
        assert all(f'unladen_restarts_total{{model="{name}"}} 0.0' in numbers for name in names)
    assert 1 <= max(counts) <= n_most


def seen(client: httpx.Client, name: str) -> dict[str, Any]:
    """What clients are told of a model, by route."""
    listed = client.get("/api/ps").json()["models"]
    return {"/api/ps": next(({key: each[key] for key in ("state", "error", "restarts")}
                             for each in listed if each["model"] == f"{name}:latest"), None),
            "/props": {key: value for key, value in client.get(
                "/props", params={"model": name}).json().items()
                if key in ("is_sleeping", "state", "error", "restarts")},
            "/v1/models": client.get(f"/v1/models/{name}").json()["status"],
            "/models": next(each["status"] for each in client.get("/models").json()["data"]
                            if each["id"] == name)}


def test_9_unloaded_crashed_and_broken_look_different(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    with serving({"ref": "tiny-chat", "name": "slept"}, {"ref": "tiny-chat", "name": "crashed"},
                 {"ref": broken, "name": "broken"}, preload=False) as served, \
            client_of(served) as client:
        ask(client, "slept", "Hello")
        assert client.post("/models/unload", json={"model": "slept"}).status_code == 200
        assert client.post("/v1/chat/completions", json={
            "model": "broken", "messages": [{"role": "user", "content": "Hi"}]}).status_code == 503

        for n in (1, 2):  # after the second time it isn't started again at once
            ask(client, "crashed", "Hello")
            pid, = loaders(served)
            os.kill(pid, signal.SIGKILL)
            until(lambda n=n: seen(client, "crashed")["/props"]["restarts"] == n)
        crashed, slept, failed = (seen(client, each) for each in ("crashed", "slept", "broken"))
        assert slept["/api/ps"] is None
        for route in ("/props", "/v1/models", "/models"):
            assert (slept[route]["state"], slept[route]["error"]) == ("unloaded", "")
            assert slept[route]["restarts"] == 0
        for route in crashed:
            assert crashed[route]["state"] == "restarting"
            assert "signal 9" in crashed[route]["error"]
            assert failed[route]["state"] == "failed"
            assert "broken.gguf" in failed[route]["error"]
        assert (slept["/props"]["is_sleeping"], failed["/props"]["is_sleeping"]) == (True, False)
        values = [each["/v1/models"]["value"] for each in (slept, crashed, failed)]
        assert values == ["unloaded", "loading", "failed"]

        # The one that crashed answers again, and is still told from one that never did.
        ask(client, "crashed", "Hello")
        for each in seen(client, "crashed").values():
            assert (each["state"], each["error"], each["restarts"]) == ("ready", "", 2)
        log = served.log.read_text()
    assert "slept is unloaded: it was unloaded" in log
    assert "the worker of crashed died: it was ended by signal 9; it is started again" in log
    assert "broken.gguf" in log and "can't be loaded" in log
    assert "Traceback" not in log
