"""Parts of the server die or are told to end, under streams of every dialect.

``lifetimes.py`` has the scenes. Run as a program it says how many seconds each takes. Here a
busy machine may take some times as long; what happens, and in which order, must be the same."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from clients import lifetimes
from clients.lifetimes import ERRORS, N_STREAMS, WHOLE, Reading, talker
from clients.serving import Served
from server.hosting import until
from unladen import Model
from unladen.backends import backend_of

BUSY = 15.0
"""A busy machine may take so many times as long."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with talker(tmp_path) as found:
        yield found


def check_failed(readings: list[Reading]) -> None:
    """Each stream ended with an error of its dialect, and none looks like a whole answer."""
    assert len(readings) == N_STREAMS
    for each in readings:
        assert not each.broke, each
        assert ERRORS[each.path] in each.tail, (each.path, each.tail)
        assert not any(mark in each.tail for mark in WHOLE), (each.path, each.tail)


def test_kill_9_of_a_worker(served: Served) -> None:
    death = lifetimes.kill_worker(served)
    check_failed(death.readings)
    assert death.stream_s < BUSY * lifetimes.STREAM_S
    assert death.stream_s < death.answer_s, "clients learn of it before the model is loaded again"
    assert death.answer == death.expected
    assert death.answer_s < BUSY * (death.load_s + lifetimes.MORE_S)
    assert len(served.workers()) == 1


def test_kill_9_of_the_server(tmp_path: Path) -> None:
    """No worker is left, and what was stored is whole: the audit, and the copy of weights that one
    of the workers was making, if its kernels want one."""
    audit, copies = tmp_path / "audit.jsonl", tmp_path / "copies"
    other = {"ref": "tiny-chat", "name": "other", "packed_cache": copies}

    with talker(tmp_path, other, status=-signal.SIGKILL, audit=audit) as served:
        answer = lifetimes.ask(served)

        def ask_in_vain() -> None:
            with pytest.raises(httpx.HTTPError):
                lifetimes.ask(served, "other")

        loading = threading.Thread(target=ask_in_vain)
        with lifetimes.streams(served, lifetimes.of_all_dialects()):
            loading.start()
            until(lambda: len(served.workers()) == 2)
            if backend_of("cpu")._level in ("avx512", "vbmi"):  # type: ignore[attr-defined]
                until(lambda: copies.is_dir() and any(copies.iterdir()))
            assert lifetimes.kill_server(served) < BUSY * lifetimes.ORPHAN_S
        loading.join()
    before = audit.read_bytes()
    assert before.endswith(b"\n")
    n_lines = len([json.loads(line) for line in before.splitlines()])
    assert n_lines >= 1

    with talker(tmp_path, other, audit=audit) as served:
        assert lifetimes.ask(served) == answer
        with Model("tiny-chat", devices=["cpu"]) as model:
            own = model.chat(lifetimes.MESSAGES, max_tokens=3)
        assert lifetimes.ask(served, "other") == own.text
    after = audit.read_bytes()
    assert after.startswith(before)
    assert len([json.loads(line) for line in after.splitlines()]) > n_lines


def test_sigterm(served: Served) -> None:
    """Streams end with an error, a whole answer with its status, a body that doesn't come keeps
    nobody waiting."""
    end = lifetimes.terminate(served)
    check_failed(end.readings)
    assert end.refused == 503
    assert end.seconds < BUSY * lifetimes.DRAIN_S


def test_slow_bodies_stop_nobody(served: Served) -> None:
    assert lifetimes.trickle(served) < BUSY * lifetimes.MORE_S
