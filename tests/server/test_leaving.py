"""A client that leaves: its work ends within a step, whatever the worker does at that moment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

pytest.importorskip("starlette")

from server.hosting import LONG, TINY, run, soon, workers
from unladen.server import listening
from unladen.server.settings import Settings
from unladen.server.supervisor import Supervisor
from unladen.server.supervisor.watch import Watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

STEPS = 2
"""Steps that a worker may count after it was told to stop: the one under way, and the request's
end, which it counts as progress."""
STILL = 4
"""Looks at a number, a tenth of a second apart, after which it counts as the last one. The requests
here would go on for hundreds of steps."""


@dataclass
class Running:
    """A server of ``tiny``, which computes one sequence at a time, at ``port``. ``steps``: what the
    worker answered to pings, the number of its steps."""

    core: Supervisor
    port: int
    steps: list[int]

    @property
    def counts(self) -> tuple[int, int]:
        """Requests that are computed, and that wait."""
        card, = self.core.cards()
        return card.running, card.waiting

    async def ask(self, *, stream: bool) -> asyncio.StreamWriter:
        """Send a request that is answered for long. Nobody reads the answer."""
        body = json.dumps({"model": "tiny", "prompt": "Once", "stream": stream, **LONG}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        return writer

    async def ping(self) -> int:
        """The steps of the worker when it has read all that it was sent before."""
        n_before = len(self.steps)
        worker = self.core._models["tiny"].worker
        assert worker is not None
        worker.send(["ping"])
        await soon(lambda: len(self.steps) > n_before)
        return self.steps[-1]

    async def last_step(self) -> int:
        """The steps of the worker once it makes no more."""
        found = [await self.ping()]
        while found[-STILL:] != [found[-1]] * STILL:
            await asyncio.sleep(0.1)
            found.append(await self.ping())
        return found[-1]


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    steps: list[int] = []
    monkeypatch.setattr(Watch, "answered", lambda self, n_steps, _: steps.append(n_steps))
    model = replace(TINY, options={**TINY.options, "max_seqs": 1, "speculate": False})
    settings = Settings(models=(model,), port=0, drain_s=0.2)
    bound, is_ready = listening.bind(settings), asyncio.Event()
    core, ended = Supervisor(settings), asyncio.get_running_loop().create_future()

    async def ready(_: object) -> None:
        await core.known()  # so that the only other process is the worker
        await core.load("tiny")
        is_ready.set()

    serving = asyncio.ensure_future(listening.serve(settings, bound, lambda: core, ready, ended))
    try:
        await is_ready.wait()
        yield Running(core, bound[0].getsockname()[1], steps)
    finally:
        ended.set_result(None)
        await serving
        for each in bound:
            each.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_under_way_ends_within_a_step(monkeypatch: pytest.MonkeyPatch, stream: bool
                                                ) -> None:
    async def test() -> None:
        async with running(monkeypatch) as server:
            pid, = workers()
            writer = await server.ask(stream=stream)
            await soon(lambda: server.counts == (1, 0))
            os.kill(pid, signal.SIGSTOP)
            writer.close()
            await soon(lambda: server.counts == (0, 0))  # the server needs no worker for that
            asking = asyncio.ensure_future(server.ping())
            await asyncio.sleep(0)  # now the worker is sent a ping, right after the cancel
            os.kill(pid, signal.SIGCONT)
            n_told = await asking
            assert await server.last_step() - n_told <= STEPS
    run(test)


def test_a_request_in_the_queue_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(monkeypatch) as server:
            pid, = workers()
            first = await server.ask(stream=False)
            await soon(lambda: server.counts == (1, 0))
            second = await server.ask(stream=False)
            await soon(lambda: server.counts == (1, 1))
            os.kill(pid, signal.SIGSTOP)
            second.close()
            await soon(lambda: server.counts == (1, 0))
            os.kill(pid, signal.SIGCONT)
            await soon(lambda: server.counts == (0, 0))
            n_ended = await server.ping()
            assert await server.last_step() - n_ended <= STEPS
            first.close()
    run(test)
