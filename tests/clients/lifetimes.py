"""How soon a server answers, and what becomes of streams, processes and files when a part of it
dies or is told to end.

    python tests/clients/lifetimes.py

measures how long each of that takes and says which limit it keeps. Limits in seconds hold on a
machine that has nothing else to do; the tests use the same scenes and look at what happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))

from clients.greeter import GREETING, write_greeter
from clients.serving import ENDED, Served, address_of, serving
from server.hosting import PATIENCE, is_alive, until

N_STREAMS = 8
LONG = 100_000
"""Tokens of an answer that lasts for minutes."""
MESSAGES = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": LONG},
    "/v1/responses": {"input": "Hi", "max_output_tokens": LONG},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": LONG},
    "/api/chat": {"messages": MESSAGES, "options": {"num_predict": LONG}}}
"""A request of each dialect that is answered for long."""
ERRORS = {"/v1/chat/completions": '"error"', "/v1/responses": "event: response.failed",
          "/v1/messages": "event: error", "/api/chat": '"error"'}
"""What the last lines of a stream that failed have."""
WHOLE = ("[DONE]", "response.completed", "response.incomplete", "message_stop", '"done":true')
"""Marks of an answer that is complete."""
FIRST_S, STREAM_S, ORPHAN_S, DRAIN_S, MORE_S = 3.0, 1.0, 2.0, 5.0, 1.0
"""Seconds from the start of a server to its first token, to the error of a stream whose worker
died, to the end of a worker whose server died, of an orderly end, and of an answer after a worker
died beyond those that its model needs to load."""
N_SLOW = 30
"""Clients that send their bodies slowly."""


@dataclass
class Reading:
    """A stream that a thread reads: its ``lines``, how many seconds after a kill it ended, and why
    it broke, "" if it came to its own end."""

    path: str
    lines: list[str] = field(default_factory=list)
    ended: float = 0.0
    broke: str = ""

    @property
    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self.lines[-8:])


@contextlib.contextmanager
def talker(folder: Path, *more: dict[str, object], status: int = ENDED, **settings: object
           ) -> Iterator[Served]:
    """A server of a model that goes on for long whatever it is asked, and of ``more`` models. It
    ends with the exit ``status``."""
    path = write_greeter(folder / "talker.gguf", again_and_again=True)
    with serving({"ref": path, "name": "talker", "cache_tokens": 3_000_000, "speculate": False},
                 *more, preload=True, status=status, **settings) as found:
        until(lambda: "is loaded" in found.log.read_text())
        yield found


@contextlib.contextmanager
def streams(served: Served, paths: Sequence[str]) -> Iterator[list[Reading]]:
    """Streams of ``paths`` that have begun to write; at the end all have ended. After an error
    nobody waits for them: they end with the server."""
    found = [Reading(path) for path in paths]
    threads = [threading.Thread(target=_read, args=(served, each), daemon=True) for each in found]
    for thread in threads:
        thread.start()
    until(lambda: all(GREETING[:3] in "".join(each.lines) or each.ended for each in found))
    assert not any(each.ended for each in found), found
    yield found
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


def _read(served: Served, reading: Reading) -> None:
    body = {"model": "talker", "stream": True, **BODIES[reading.path]}
    try:
        with httpx.stream("POST", served.address + reading.path, json=body,
                          timeout=PATIENCE) as reply:
            for line in reply.iter_lines():
                if line:
                    reading.lines.append(line)
    except httpx.HTTPError as error:
        reading.broke = repr(error)
    reading.ended = time.monotonic()


def first_token(log: Path) -> float:
    """Seconds from the start of ``unladen serve tiny`` to the first token that a client gets."""
    began = time.monotonic()
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "unladen", "serve", "tiny", "--port", "0"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        with httpx.stream("POST", f"{address_of(process, log)}/v1/completions", timeout=PATIENCE,
                          json={"model": "tiny", "prompt": "Once upon a time", "stream": True}
                          ) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                    return time.monotonic() - began
    finally:
        process.terminate()
        process.wait()
    raise AssertionError("there was no token")


def of_all_dialects() -> list[str]:
    """The routes of :data:`N_STREAMS` streams."""
    return [*BODIES] * (N_STREAMS // len(BODIES))


def ask(served: Served, model: str = "talker") -> str:
    """A short answer."""
    done = httpx.post(f"{served.address}/v1/chat/completions", timeout=PATIENCE, json={
        "model": model, "messages": MESSAGES, "max_tokens": 3, "temperature": 0})
    assert done.status_code == 200, done.text
    return str(done.json()["choices"][0]["message"]["content"])


@dataclass
class WorkerDeath:
    """Seconds after kill -9 of a worker: to the end of each stream, to the next answer; and those
    that the model takes to load."""

    readings: list[Reading]
    stream_s: float
    answer_s: float
    load_s: float
    answer: str
    expected: str


def kill_worker(served: Served) -> WorkerDeath:
    """Kill a worker under streams of all dialects, and ask again at once."""
    manage = {"json": {"model": "talker"}, "timeout": PATIENCE}
    expected = ask(served)
    httpx.post(f"{served.address}/models/unload", **manage)
    began = time.monotonic()
    httpx.post(f"{served.address}/models/load", **manage)
    load_s = time.monotonic() - began
    with streams(served, of_all_dialects()) as readings:
        pid, = served.workers()
        os.kill(pid, signal.SIGKILL)
        died = time.monotonic()
        answer = ask(served)
        answered = time.monotonic()
    return WorkerDeath(readings, max(each.ended for each in readings) - died, answered - died,
                       load_s, answer, expected)


def kill_server(served: Served) -> float:
    """Kill the server; the seconds after which none of its workers is left."""
    left = served.workers()
    assert left
    os.kill(served.pid, signal.SIGKILL)
    died = time.monotonic()
    until(lambda: not any(map(is_alive, left)))
    return time.monotonic() - died


@dataclass
class End:
    """An orderly end: its seconds, and the streams that it ended."""

    seconds: float
    readings: list[Reading]
    refused: int


def terminate(served: Served) -> End:
    """Send SIGTERM under streams, a whole answer and a body that never ends."""
    port = httpx.URL(served.address).port
    assert port is not None
    with streams(served, of_all_dialects()) as readings, _slow_bodies(port, 1):
        whole: list[int] = []

        def ask_whole() -> None:
            path = "/v1/chat/completions"
            whole.append(httpx.post(served.address + path, timeout=PATIENCE, json={
                "model": "talker", **BODIES[path]}).status_code)

        asking = threading.Thread(target=ask_whole)
        asking.start()
        until(lambda: running(served) == N_STREAMS + 1)
        left = served.workers()
        os.kill(served.pid, signal.SIGTERM)
        began = time.monotonic()
        until(lambda: not any(map(is_alive, [served.pid, *left])))
        seconds = time.monotonic() - began
        asking.join(PATIENCE)
    return End(seconds, readings, whole[0])


def running(served: Served) -> int:
    """Requests that are computed."""
    return sum(slot["is_processing"] for slot in httpx.get(f"{served.address}/slots").json())


@contextlib.contextmanager
def _slow_bodies(port: int, n: int) -> Iterator[Callable[[], None]]:
    """``n`` clients that sent a part of a body; what they give sends one more byte of each."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
                   for _ in range(n)]
        for client in clients:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")

        def trickle() -> None:
            for each in clients:
                each.sendall(b" ")
        yield trickle


def trickle(served: Served) -> float:
    """Ask for the server's health, its models and an answer while many bodies arrive slowly; the
    longest of the seconds that ``/health`` took."""
    port = httpx.URL(served.address).port
    assert port is not None
    longest = 0.0
    with _slow_bodies(port, N_SLOW) as send_more:
        for _ in range(5):
            send_more()
            began = time.monotonic()
            assert httpx.get(f"{served.address}/health", timeout=PATIENCE).status_code == 200
            longest = max(longest, time.monotonic() - began)
        assert httpx.get(f"{served.address}/v1/models", timeout=PATIENCE).status_code == 200
        assert ask(served)
        send_more()  # none of them was cut off meanwhile
    return longest


def main() -> None:
    """Measure, print, and end with status 1 where a limit isn't kept."""
    with tempfile.TemporaryDirectory() as folder:
        found = [("the first token of unladen serve tiny", first_token(Path(folder) / "log"),
                  FIRST_S)]
        with talker(Path(folder)) as served:
            death = kill_worker(served)
            found += [("an error in each stream after kill -9 of a worker", death.stream_s,
                       STREAM_S),
                      ("the next answer", death.answer_s, death.load_s + MORE_S),
                      ("/health beside slow bodies", trickle(served), MORE_S)]
        with (talker(Path(folder), status=-signal.SIGKILL) as served,
              streams(served, of_all_dialects())):
            found.append(("no worker is left after kill -9 of the server", kill_server(served),
                          ORPHAN_S))
        with talker(Path(folder)) as served:
            found.append(("the end after SIGTERM", terminate(served).seconds, DRAIN_S))
    for what, seconds, limit in found:
        print(f"{seconds:7.3f} s of {limit:7.3f} s: {what}")
    raise SystemExit(any(seconds > limit for _, seconds, limit in found))


if __name__ == "__main__":
    main()
