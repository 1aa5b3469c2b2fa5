"""Requests free their memory when they end; none waits for the garbage collector."""

from __future__ import annotations

import gc
import time
from collections import Counter

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx

from server.live import live
from server.scripted import ScriptedCore, answer
from unladen.server.app import make_app
from unladen.server.settings import Settings

BODY = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}
N = 5
WATCHED = ("Visit", "Streamed", "RequestResponseCycle", "ClientDisconnect")


def _alive() -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects()
                   if type(each).__name__ in WATCHED)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_requests_leave_no_cycles(stream: bool) -> None:
    core = ScriptedCore(answer("a", "b"))
    with live(make_app(core, Settings())) as address, httpx.Client(base_url=address) as client:
        def ask(**named: object) -> None:
            client.post("/v1/chat/completions", headers={"Connection": "close"}, **named)
        ask(json={**BODY, "stream": stream})  # what is made once is made
        gc.collect()
        gc.disable()
        try:
            before = _alive()
            for _ in range(N):
                ask(json={**BODY, "stream": stream})
                ask(content=b"{")
            end = time.monotonic() + 60
            while (left := _alive() - before) and time.monotonic() < end:
                time.sleep(0.05)  # a task of the last request may still end
            assert not left
        finally:
            gc.enable()
