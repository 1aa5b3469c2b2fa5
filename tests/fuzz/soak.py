"""Soaks a server in random requests: ``python tests/fuzz/soak.py --seconds 600``.

Visitors of all dialects ask for texts, embeddings and the like, whole and as streams, read what is
kept, leave at any moment, send halves of requests, bodies with wrong fields or bytes, and what is
no HTTP; one model is loaded and unloaded meanwhile. Sound requests get complete answers, no other
has a status that isn't meant, and ``/health`` always answers.

Caches fill by requests: first ``--warm`` of them are made. Then the time is divided into rounds.
After each one nobody asks: then no request may be left, no request may hold blocks of a cache, and
memory and open files of each process are noted. From the first rounds to the last no process may
grow by more than ``--growth``, and none may have more files. Prints what happened, and ends with
status 1 if something was wrong; ``--seed`` makes the same choices again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from factory import write_bert
from fuzz.asks import CHAT, COMING, ENCODER, STORY, Ask
from fuzz.processes import by_process, files
from fuzz.visitors import PATIENCE, Client, Visitor, any_kept_response, kept_context, warm

VISITORS: Final = 16
"""Requests at a time."""
ROUNDS: Final = 12
"""Rounds of visits."""
FEWEST_ROUNDS: Final = 2
"""Rounds of a short soak, to be compared."""
ROUND_S: Final = 10.0
"""Seconds of a round at least."""
WARM: Final = 4000
"""Requests after which memory is compared."""
GROWTH: Final = 0.02
"""How much memory may grow, as a share."""
KEPT: Final = 1000
"""Responses, and contexts, that a server keeps: so many are made before memory is looked at."""
LOOK_S: Final = 0.5
"""Seconds between two looks at the server's health, or at whether it has settled."""
TABLE: Final = """
[server]
header_seconds = "10m"
body_seconds = "10m"
write_seconds = "10m"
memory_share = 1.0
"""
"""Settings: no time of the server's ends a request while the whole machine is stopped."""
MODEL: Final = """
[[models]]
name = "{name}"
ref = "{ref}"
devices = ["cpu"]
n_threads = 1
context_size = {context}
max_seqs = 8
"""


@dataclass
class Noted:
    """Bytes and files of the processes after each round, by their numbers."""

    rounds: list[dict[int, tuple[int, int]]] = field(default_factory=list)

    def judge(self, names: dict[int, str], growth: float) -> Iterator[str]:
        """What is wrong with the processes ``names``, of which one line each is printed."""
        n = max(1, len(self.rounds) // 3)
        for process, name in names.items():
            if not all(process in each for each in self.rounds):
                yield f"the process of {name} didn't last"
                continue
            series = [each[process][0] for each in self.rounds]
            before, after = statistics.median(series[:n]), statistics.median(series[-n:])
            files_before, files_after = self.rounds[0][process][1], self.rounds[-1][process][1]
            print(f"{name}: memory {before / 2**20:.2f} -> {after / 2**20:.2f} MiB "
                  f"({after / before - 1:+.2%}), files {files_before} -> {files_after}; MiB by "
                  f"round: {' '.join(f'{each / 2**20:.2f}' for each in series)}")
            if after > before * (1 + growth):
                yield f"{name}: memory grew from {before:.0f} to {after:.0f} bytes"
            if files_after > files_before:
                yield f"{name}: open files grew from {files_before} to {files_after}"


async def look(client: Client, until: asyncio.Event) -> None:
    """Ask for the server's health all the time."""
    while not until.is_set():
        async with asyncio.timeout(PATIENCE):
            status, _ = await client.ask(Ask("GET", "/health"))
        client.counts[f"health {status}"] += 1
        if status != 200:
            client.fault(f"/health got {status}")
        await asyncio.sleep(LOOK_S)


async def settle(client: Client) -> None:
    """Wait until nothing is left of all requests; a fault says what stays."""
    await client.ask(Ask("POST", "/models/load", {"model": COMING}))  # the same in every round
    end, left = time.monotonic() + PATIENCE, ["?"]
    while left and time.monotonic() < end:
        await asyncio.sleep(LOOK_S)
        _, page = await client.ask(Ask("GET", "/metrics"))
        left = re.findall(r"^unladen_(?:requests_running|requests_waiting|cache_blocks_held)\{.*\} "
                          r"(?!0\.0$).*$", page.decode(), re.M)
        if "unladen_cache_blocks_held" not in page.decode():
            left = ["no metrics"]
    if left:
        client.fault(f"something is left of requests: {left}")


async def fill(client: Client, seed: int, n: int) -> None:
    """Make as many responses and contexts as the server keeps, so that it grows no more by them."""
    rng = random.Random(seed)
    asks = [make(rng) for make in (any_kept_response, kept_context) for _ in range(n)]

    async def some() -> None:
        while asks:
            await client.ask(asks.pop())

    for each in warm(rng):
        status, body = await client.ask(each)
        if status != 200:
            client.fault(f"{each.path} of the start got {status}: {body[:300]!r}")
    await asyncio.gather(*(some() for _ in range(VISITORS)))


async def visit(client: Client, seed: str, is_over: Callable[[], bool]) -> None:
    """Let visitors do what ``seed`` decides until ``is_over``, and wait until they have left."""
    over = asyncio.Event()
    looking = asyncio.ensure_future(look(client, over))
    await asyncio.gather(*(Visitor(client, f"{seed} {i}").stay(is_over) for i in range(VISITORS)))
    over.set()
    await looking
    await settle(client)


async def soak(client: Client, process: int, options: argparse.Namespace) -> None:
    """Soak the server ``process``."""
    begun = time.monotonic()
    await fill(client, options.seed, options.kept)
    workers = await _settled_workers(client, process)
    enough = client.counts.total() + options.warm
    await visit(client, f"{options.seed} warm", lambda: client.counts.total() >= enough)
    print(f"warm after {time.monotonic() - begun:.0f} s and {client.counts.total()} requests",
          flush=True)
    noted = Noted()
    n_rounds = int(min(ROUNDS, max(FEWEST_ROUNDS, options.seconds / ROUND_S)))
    for number in range(n_rounds):
        until = time.monotonic() + options.seconds / n_rounds
        await visit(client, f"{options.seed} {number}",
                    lambda until=until: time.monotonic() > until)
        noted.rounds.append(by_process(process))
        print(f"round {number + 1} of {n_rounds}: {client.counts.total()} requests, "
              f"{len(client.faults)} faults", flush=True)
    names = {process: "server", **{pid: f"worker {pid}" for pid in workers}}
    client.faults += noted.judge(names, options.growth)


async def _settled_workers(client: Client, process: int) -> list[int]:
    """The workers that stay: that of the model that comes and goes isn't one."""
    await settle(client)
    before = by_process(process)
    await client.ask(Ask("POST", "/models/unload", {"model": COMING}))
    after = by_process(process)
    assert len(after) == 4, f"there should be a server and three workers: {[*after]}"
    assert files(process) <= before[process][1]
    return [pid for pid in after if pid != process]


@contextlib.contextmanager
def served() -> Iterator[tuple[int, str]]:
    """A server's process number and address. Its log is printed."""
    with tempfile.TemporaryDirectory() as folder:
        encoder = write_bert(Path(folder) / "encoder.gguf", np.random.default_rng(0), {
            "pooling_type": 1})
        config, said = Path(folder) / "server.toml", Path(folder) / "log"
        config.write_text(TABLE + "".join(
            MODEL.format(name=name, ref=ref, context=context) for name, ref, context in (
                (CHAT, CHAT, 512), (STORY, STORY, 512), (COMING, CHAT, 512),
                (ENCODER, encoder, 96))))
        with open(said, "w") as log, subprocess.Popen(
                [sys.executable, "-P", "-m", "unladen", "serve", "--config", str(config), "--port",
                 "0"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log) as process:
            try:
                yield process.pid, _address(process, said)
            finally:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
                process.kill()
        print(said.read_text()[-10_000:])


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"^unladen serves .* at (http://\S+)$", log.read_text(), re.M):
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"the server didn't start: {log.read_text()}")


def main() -> int:
    """Start a server and soak it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--growth", type=float, default=GROWTH,
                        help="the share by which a process may grow (%(default)s)")
    parser.add_argument("--kept", type=int, default=KEPT,
                        help="responses and contexts that are made first (%(default)s)")
    parser.add_argument("--warm", type=int, default=WARM,
                        help="requests before memory is compared (%(default)s)")
    options = parser.parse_args()
    print(f"seed {options.seed}: --seed {options.seed} --seconds {options.seconds:g} repeats the "
          "choices", flush=True)
    with served() as (process, address):
        client = Client(int(address.rpartition(":")[2]))
        asyncio.run(soak(client, process, options))
    for text in client.faults[:40]:
        print(f"FAULT {text}")
    print(f"{len(client.faults)} faults; {json.dumps(dict(sorted(client.counts.items())))}")
    return bool(client.faults)


if __name__ == "__main__":
    sys.exit(main())
