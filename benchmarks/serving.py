"""Compares the server with llama-server: the same file, the same requests, in turns.

    python benchmarks/serving.py --peer /path/to/llama-server MODEL.gguf [--rounds 3] [--only NAME]

Measured, each as a ratio of unladen's number to llama-server's:

* ``streams8``, ``streams32``: tokens a second of that many streaming clients, prompts of 125
  tokens, 128 written.
* ``first``, ``gap``: seconds to the first token of a short request, and the longest pause of four
  running streams, while a prompt of 4,000 tokens is read.
* ``shared``: requests a second of 16 clients with a common prompt of 2,000 tokens, 16 written.
* ``one``: tokens a second of one client, beside those of ``unladen bench`` on the same file.

Both programs get ``/completion`` with token ids, so no template differs. Before a test runs, each
server has written 64 tokens to as many clients as the test has. llama-server is started with each
of its settings in the first round; for each test the best one counts. It has as many slots as
there are clients; with a common prompt fewer are tried, too, since each slot reads it once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

PROMPT, WRITTEN, LONG, SHARED, SHORT = 125, 128, 4000, 2000, 16
"""Tokens of prompts and answers; see above."""
N_VOCAB = 30_000
"""Random ids are below this, which every vocabulary has."""
PEER_SETTINGS: Sequence[Sequence[str]] = (
    ("-fa", "on"), ("-fa", "off"))
"""llama-server's settings that are tried for each number of slots."""
START_S = 300
"""Seconds for a server to be ready."""


@dataclass
class Times:
    """When the pieces of an answer came, in seconds of the clock."""

    asked: float
    pieces: list[float] = field(default_factory=list)
    n_tokens: int = 0

    @property
    def first(self) -> float:
        """Seconds to the first piece."""
        return self.pieces[0] - self.asked

    def longest(self, begin: float, end: float) -> float:
        """The longest pause between pieces that lies in part between these times."""
        return max((b - a for a, b in zip(self.pieces, self.pieces[1:], strict=False)
                    if b > begin and a < end), default=0.0)


class Client:
    """Asks a server on ``port``: HTTP over plain streams, so that both cores are left to it."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def ask(self, prompt: Sequence[int], n: int, times: Times | None = None,
                  temperature: float = 0.8) -> Times:
        """A streamed answer of ``n`` tokens."""
        times = times or Times(time.perf_counter())
        body = json.dumps({"prompt": [*prompt], "n_predict": n, "stream": True,
                           "ignore_eos": temperature > 0, "temperature": temperature,
                           "cache_prompt": True}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                         b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                         + body)
            async for event in _events(reader):
                if event.get("stop"):
                    times.n_tokens = event["tokens_predicted"]
                elif "error" in event:
                    raise RuntimeError(event["error"])
                else:
                    times.pieces.append(time.perf_counter())
        finally:
            writer.close()
        if times.n_tokens != n:
            raise RuntimeError(f"{times.n_tokens} tokens instead of {n}")
        return times


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError((status + await reader.read(2000)).decode(errors="replace"))
    async for line in reader:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def _random(n: int) -> list[int]:
    return [random.randrange(1000, N_VOCAB) for _ in range(n)]


async def streams(client: Client, n: int) -> dict[str, float]:
    """Tokens a second of ``n`` clients."""
    start = time.perf_counter()
    done = await asyncio.gather(*(client.ask(_random(PROMPT), WRITTEN) for _ in range(n)))
    return {f"streams{n}": sum(t.n_tokens for t in done) / (time.perf_counter() - start)}


async def while_reading(client: Client) -> dict[str, float]:
    """A short request and running streams while a long prompt is read."""
    running = [Times(time.perf_counter()) for _ in range(4)]
    tasks = [asyncio.ensure_future(client.ask(_random(PROMPT), 400, each)) for each in running]
    while not all(len(each.pieces) > 4 for each in running):
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
    begin = time.perf_counter()
    long = asyncio.ensure_future(client.ask(_random(LONG), 1))
    await asyncio.sleep(0.3)
    short = await client.ask(_random(32), 2)
    await long
    end = time.perf_counter()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"first": short.first, "gap": max(each.longest(begin, end) for each in running),
            "long": end - begin}


async def shared(client: Client) -> dict[str, float]:
    """Requests a second with a common beginning."""
    common = _random(SHARED)
    await client.ask(common + _random(8), 1)
    start = time.perf_counter()
    n = 32
    limit = asyncio.Semaphore(16)

    async def one() -> None:
        async with limit:
            await client.ask(common + _random(32), SHORT)
    await asyncio.gather(*(one() for _ in range(n)))
    return {"shared": n / (time.perf_counter() - start)}


async def one_client(client: Client) -> dict[str, float]:
    """Tokens a second of a single client after its first token."""
    done = await client.ask(_random(8), WRITTEN, temperature=0.0)  # as the benchmark does
    return {"one": (done.n_tokens - 1) / (done.pieces[-1] - done.pieces[0])}


@dataclass(frozen=True)
class Test:
    """A test: ``n`` clients at most, of ``tokens`` each."""

    run: Callable[[Client], Awaitable[dict[str, float]]]
    n: int
    tokens: int
    slots: Sequence[int] = ()
    """Numbers of llama-server's slots that are tried; empty: ``n``."""

    @property
    def settings(self) -> list[tuple[str, ...]]:
        """llama-server's settings that are tried."""
        return [("-np", str(n), "-c", str(n * self.tokens), *each)
                for n in self.slots or (self.n,) for each in PEER_SETTINGS]


TESTS = {
    "streams8": Test(lambda client: streams(client, 8), 8, 288),
    "streams32": Test(lambda client: streams(client, 32), 32, 288),
    "reading": Test(while_reading, 6, 4352),
    "shared": Test(shared, 16, 2304, slots=(4, 8, 16)),
    "one": Test(one_client, 1, 288)}
"""The tests by name."""
SMALLER_IS_BETTER = {"first", "gap", "long"}
"""Numbers that are seconds."""


@contextlib.contextmanager
def served(command: Sequence[str], port: int) -> Iterator[Client]:
    """The server that ``command`` starts on ``port``."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} didn't start") from None
                time.sleep(0.2)
        yield Client(port)
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    """A port that is free."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def mine(model: str, test: Test, threads: int) -> dict[str, float]:
    """unladen's numbers."""
    port = free_port()
    context = max(4608, test.tokens)
    command = [sys.executable, "-m", "unladen", "serve", model, "--port", str(port),
               "--context-size", str(context), "--cache-tokens",
               str(max(context, test.n * test.tokens)), "--threads", str(threads)]
    with served(command, port) as client:
        asyncio.run(client.ask(_random(8), 1))  # loads the model
        return asyncio.run(_run(test, client))


def theirs(peer: str, model: str, test: Test, settings: Sequence[str], threads: int
           ) -> dict[str, float]:
    """llama-server's numbers."""
    port = free_port()
    command = [peer, "-m", model, "--port", str(port), "-t", str(threads), "--no-webui", *settings]
    with served(command, port) as client:
        asyncio.run(client.ask(_random(8), 1))
        return asyncio.run(_run(test, client))


async def _run(test: Test, client: Client) -> dict[str, float]:
    # An engine that chooses kernels as it runs has chosen after this.
    await asyncio.gather(*(client.ask(_random(PROMPT), WRITTEN // 2) for _ in range(test.n)))
    return await test.run(client)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=[*TESTS], action="append")
    options = parser.parse_args()
    for name in options.only or TESTS:
        test = TESTS[name]
        ours: dict[str, list[float]] = {}
        peers: dict[tuple[str, ...], dict[str, list[float]]] = {}
        for i in range(options.rounds):
            _add(ours, mine(options.model, test, options.threads))
            tried = test.settings if i == 0 else [_best(peers)]
            for settings in tried:
                _add(peers.setdefault(tuple(settings), {}),
                     theirs(options.peer, options.model, test, settings, options.threads))
        best = peers[_best(peers)]
        for key, values in ours.items():
            a, b = statistics.median(values), statistics.median(best[key])
            print(f"{key:10} unladen {a:9.3f}  llama-server {b:9.3f}  ratio {a / b:6.3f}  "
                  f"({' '.join(_best(peers))}; {values} {best[key]})", flush=True)


def _add(to: dict[str, list[float]], found: dict[str, float]) -> None:
    for key, value in found.items():
        to.setdefault(key, []).append(value)


def _best(peers: dict[tuple[str, ...], dict[str, list[float]]]) -> tuple[str, ...]:
    """The setting with the best first number."""
    def score(settings: tuple[str, ...]) -> float:
        key, values = next(iter(peers[settings].items()))
        value = statistics.median(values)
        return -value if key in SMALLER_IS_BETTER else value
    return max(peers, key=score)


if __name__ == "__main__":
    main()
