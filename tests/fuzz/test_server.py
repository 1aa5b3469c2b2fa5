"""A short soak of a server, and some cases of schemathesis, which has an environment of its own:
``make long`` makes it, and UNLADEN_TEST_SCHEMATHESIS names its command. ``make soak`` and ``make
fuzz-api`` are the whole."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from fuzz.api import cases
from fuzz.asks import EVERY, Ask
from fuzz.soak import Noted
from fuzz.visitors import statuses_of

VARIABLE = "UNLADEN_TEST_SCHEMATHESIS"
N_CASES = 200
SECONDS, GROWTH = 40, 0.25
"""Seconds of a short soak, and how much its processes may grow. Caches still fill in that time:
only a flood of memory would be seen."""
LIMIT_S = 1500
"""Seconds that a short soak may take on a busy machine. It needs 60."""


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_short_soak() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("soak.py")), "--seconds", str(SECONDS),
         "--growth", str(GROWTH), "--kept", "50", "--warm", "200"], capture_output=True,
        text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults; " in done.stdout


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_some_cases_of_the_description() -> None:
    program = os.environ.get(VARIABLE)
    if not program:
        pytest.skip(f"needs {VARIABLE}, the command of an environment with the dependency group "
                    "fuzz; make long makes one")
    seed = secrets.randbits(31)
    print(f"seed {seed}")
    assert cases(str(Path(program).absolute()), N_CASES, seed) == 0


def test_growth_and_files_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    flat = [(100_000 + (i % 3) * 500, 9) for i in range(12)]
    rising = [(100_000 + i * 500, 9) for i in range(12)]
    leaking = [(100_000, 9 + (i == 11)) for i in range(12)]
    once = [(100_000 * (1 + (i == 2) * 0.5), 9) for i in range(12)]
    noted = Noted([{1: a, 2: b, 3: c, 4: d, **({5: a} if i else {})} for i, (a, b, c, d) in
                   enumerate(zip(flat, rising, leaking, once, strict=True))])
    names = {1: "flat", 2: "rising", 3: "leaking", 4: "once", 5: "new"}
    said = [*noted.judge(names, 0.02)]
    assert [each.split(":")[0] for each in said] == [
        "rising", "leaking", "the process of new didn't last"]
    assert "memory grew" in said[0] and "files grew" in said[1]
    assert "flat: memory 0.10 -> 0.10 MiB" in capsys.readouterr().out


def test_requests_are_drawn_by_their_seed() -> None:
    made = [[make(random.Random(f"{seed} {i}")) for i in range(50) for make in EVERY]
            for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert {each.path for each in made[0]} >= {
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/api/chat",
        "/v1/messages/count_tokens", "/api/generate", "/completion", "/v1/embeddings", "/metrics"}
    assert all(isinstance(each, Ask) for each in made[0])


def test_every_answer_of_a_connection_is_seen() -> None:
    assert statuses_of(b"HTTP/1.1 200 OK\r\n\r\n{}HTTP/1.1 404 Not Found\r\n\r\n"
                       b"HTTP/1.1 500 Oh") == [200, 404, 500]
    assert statuses_of(b'HTTP/1.1 400 Bad\r\n\r\n{"said": "doesn\'t speak HTTP/1.1 200 "}') == [400]
    assert statuses_of(b"") == []
