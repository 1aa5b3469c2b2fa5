"""All models of the server, and who may be in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from unladen.server.asked import Asked, Chat, Text
from unladen.server.core import PLAIN, Card, Told, Wish
from unladen.server.events import Event, Result, Scores, Tokens, Vectors
from unladen.server.events import Prompt as PromptResult
from unladen.server.faults import Fault
from unladen.server.settings import ModelSettings, Settings
from unladen.server.supervisor.changing import changed
from unladen.server.supervisor.hosted import Hosted
from unladen.server.supervisor.looking import is_reference, look
from unladen.server.supervisor.memory import Memory

RESULTS = (Vectors, Scores, PromptResult, Tokens)
DRAIN_BEAT = 0.02
"""Seconds between two looks at whether requests have ended."""
MAX_OTHERS = 256
"""Models that aren't in the settings of which something is kept in memory, unless they are in use:
clients can ask for any number of names."""


class Supervisor:
    """A :class:`~unladen.server.core.Core` whose models are in processes of their own.

    ``settings``: the server's settings. Use it in an ``async with``: at the end all workers are
    gone.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory = Memory(settings, self._loaded)
        self._models = {own.name: self._host(own) for own in settings.models}
        self._is_closing = False
        self._searching, self._changing = asyncio.Lock(), asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Supervisor:
        # so that the list of models says what they are
        self._looking = asyncio.ensure_future(look([*self._models.values()], self._settings))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.drain()

    def cards(self) -> Sequence[Card]:
        """See :class:`Core`."""
        return [each.card() for each in self._models.values()]

    async def card(self, name: str) -> Card:
        """See :class:`Core`."""
        hosted = await self._find(name)
        await look([hosted], self._settings)
        return hosted.card()

    @asynccontextmanager
    async def answer(self, name: str, asked: Chat | Text, wish: Wish = PLAIN
                     ) -> AsyncIterator[AsyncIterator[Event]]:
        """See :class:`Core`."""
        self._check_open()
        hosted = await self._find(name)
        ticket = hosted.enter(asked, wish)
        try:
            yield ticket.items()  # type: ignore[misc]  # an answer has events only
        finally:
            hosted.leave(ticket)

    async def result(self, name: str, asked: Asked, wish: Wish = PLAIN) -> Result:
        """See :class:`Core`."""
        self._check_open()
        hosted = await self._find(name)
        ticket = hosted.enter(asked, wish)
        try:
            async for item in ticket.items():
                if isinstance(item, RESULTS):
                    return item
        finally:
            hosted.leave(ticket)
        raise Fault("internal", "the worker sent no result")

    async def load(self, name: str, wish: Wish = PLAIN) -> Card:
        """See :class:`Core`."""
        self._check_open()
        hosted = await self._find(name)
        hosted.stay(wish)
        hosted.load(wish.options)
        await hosted.ready()
        hosted.settle()
        return hosted.card()

    async def begin(self, name: str, wish: Wish = PLAIN) -> Card:
        """See :class:`Core`."""
        self._check_open()
        hosted = await self._find(name)
        hosted.stay(wish)
        hosted.load(wish.options)
        hosted.settle()
        return hosted.card()

    async def place(self, name: str, changes: Mapping[str, Any]) -> Card:
        """See :class:`Core`."""
        self._check_open()
        hosted = await self._find(name)
        await hosted.place(changes)
        return hosted.card()

    async def unload(self, name: str) -> Card:
        """See :class:`Core`."""
        hosted = await self._find(name)
        await hosted.unload()
        return hosted.card()

    async def change(self, what: str, given: Mapping[str, str], told: Told = lambda n, total: None
                     ) -> None:
        """See :class:`Core`. A model in memory whose name is taken or removed is unloaded."""
        self._check_open()
        name = given["name"]
        same = self._called(name)
        if same and what != "pull" and same[0].own in self._settings.models:
            raise Fault("forbidden", f"the model {name!r} is one of the server's settings",
                        hint="the operator can change it")
        async with self._changing:
            await changed(what, given, told)
        for each in same:
            await each.retire(f"its name was changed: {what}")
            self._models.pop(each.own.name, None)
            await each.close()
        if what != "remove" and not same:
            await self._other(name)

    async def drain(self) -> None:
        """Take no more requests, give those under way ``drain_s`` seconds to end, end the others,
        and wait until all workers are gone."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_s):
                while any(each.queue for each in self._models.values()):
                    await asyncio.sleep(DRAIN_BEAT)
        for each in self._models.values():
            each.queue.fail(_closing())
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        await asyncio.gather(*(each.close() for each in self._models.values()))

    async def known(self) -> None:
        """Wait until the files of all models in the settings were looked at."""
        if self._looking is not None:
            await asyncio.wait((self._looking,))

    def _host(self, own: ModelSettings) -> Hosted:
        return Hosted(own, self._settings, self._memory.room)

    def _loaded(self) -> list[Hosted]:
        return [each for each in self._models.values() if each.is_loaded]

    async def _find(self, name: str) -> Hosted:
        for each in self._models.values():
            if not name or name in each.names:
                return each
        if self._settings.allow_any and (found := await self._other(name)) is not None:
            return found
        raise Fault("unknown_model", f"there is no model {name!r}",
                    hint=f"there are {', '.join(self._models) or 'none'}", param="model")

    async def _other(self, name: str) -> Hosted | None:
        """A model that isn't in the settings but in the stores; None: it is nowhere."""
        if not is_reference(name):
            return None
        async with self._searching:  # any number of names makes one process at a time
            if same := self._called(name):
                return same[0]
            hosted = self._host(ModelSettings(name, name, options=self._settings.any_options))
            await look([hosted], self._settings)
            if not hosted.resolved:
                return None
            self._models[name] = hosted
        others = [each for each in self._models.values() if each is not hosted
                  and each.own not in self._settings.models]
        if len(others) >= MAX_OTHERS:
            unused = [each for each in others if not each.is_loaded and not each.queue]
            for each in sorted(unused, key=lambda each: each.used)[:1]:
                del self._models[each.own.name]
                await each.close()
        return hosted

    def _called(self, name: str) -> list[Hosted]:
        """The models called ``name``, in any case, with the tag ``latest`` or without it."""
        return [each for each in self._models.values()
                if _plain(name) in map(_plain, each.names)]

    def _check_open(self) -> None:
        if self._is_closing:
            raise _closing()


def _plain(name: str) -> str:
    """``name`` as names are compared."""
    return name.casefold().removesuffix(":latest")


def _closing() -> Fault:
    return Fault("closing", "the server shuts down", hint="try again later", retry_after=5)
