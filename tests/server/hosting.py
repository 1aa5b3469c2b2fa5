"""Runs a supervisor in a test, and looks at its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from unladen.server.asked import Chat, Text
from unladen.server.core import PLAIN, Wish
from unladen.server.events import Event, Piece
from unladen.server.settings import ModelSettings, Settings
from unladen.server.supervisor import Supervisor

PATIENCE = 600.0
"""Seconds after which a test gives up. A busy machine takes some."""
LONG: dict[str, Any] = {"max_tokens": 900, "ignore_eos": True, "seed": 1}
"""A text that is long enough to be interrupted."""
TINY = ModelSettings("tiny", "tiny", options={"devices": ["cpu"], "n_threads": 1})
CHAT = ModelSettings("tiny-chat", "tiny-chat", aliases=("small",),
                     options={"devices": ["cpu"], "n_threads": 1})


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``test``, but not for ever."""
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()
    asyncio.run(limited())


@asynccontextmanager
async def hosting(*models: ModelSettings, **settings: Any) -> AsyncIterator[Supervisor]:
    """A supervisor of ``models`` whose workers are gone at the end."""
    settings.setdefault("drain_s", 0.2)
    async with Supervisor(Settings(models=models, **settings)) as supervisor:
        await supervisor.known()  # so that all other processes are workers with models
        yield supervisor
        pids = workers()
    assert not any(is_alive(pid) for pid in pids)


def workers(parent: int | None = None) -> list[int]:
    """The numbers of the workers that ``parent`` started; None: this process, which may have
    started other programs, too."""
    found = Path(f"/proc/{parent or os.getpid()}/task").glob("*/children")
    return [int(word) for each in found for word in each.read_text().split()
            if _is_worker(int(word))]


def _is_worker(pid: int) -> bool:
    try:
        return b"unladen.server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return False


def is_alive(pid: int) -> bool:
    """Whether the process ``pid`` runs."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


async def soon(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; the test's own limit ends this."""
    while not condition():
        await asyncio.sleep(0.01)


async def asked(core: Supervisor, name: str, question: Chat | Text, wish: Wish = PLAIN
                ) -> list[Event]:
    """All events of an answer."""
    async with core.answer(name, question, wish) as events:
        return [event async for event in events]


def text_of(events: list[Event], choice: int = 0) -> str:
    """The text of an answer."""
    return "".join(each.text for each in events
                   if isinstance(each, Piece) and each.choice == choice)


def hello(**parameters: Any) -> Chat:
    """A question that ``tiny-chat`` answers."""
    return Chat(messages=[{"role": "user", "content": "Hello!"}],
                parameters={"temperature": 0.0, **parameters})


def flood(n: int) -> Text:
    """A text that ``tiny`` goes on with in ``n`` ways, which together take seconds."""
    return Text(prompt="Once upon a time", n=n, parameters={**LONG, "temperature": 1.0})


def story(**parameters: Any) -> Text:
    """A text that ``tiny`` goes on with."""
    return Text(prompt="Once upon a time", parameters={"temperature": 0.0, **parameters})
